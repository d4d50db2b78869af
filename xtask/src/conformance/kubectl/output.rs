//! Takes out of the output of kubectl what differs between any two clusters: times, identities, addresses, names.
//!
//! The rows are in the order in which they are applied. A row that takes out too much hides a difference, so each
//! replaces a form that only such a value has.

use std::sync::LazyLock;

use regex::Regex;

/// Letters and digits of generated names.
const RANDOM: &str = "[bcdfghjklmnpqrstvwxz2456789]";

static ROWS: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    let random_name = format!("-{RANDOM}{{6,10}}-{RANDOM}{{5}}\\b");
    let hash = format!("-{RANDOM}{{8,10}}\\b");
    let bare_hash = format!(
        "((?:pod-template|controller-revision)-hash(?:=|: |\":\\s?\"))(?:[a-z-]+-)?{RANDOM}{{6,10}}"
    );
    let random = format!("-{RANDOM}{{5}}\\b");
    let rows: [(&str, &str); 24] = [
        // Our server says what it stores without effect. Only this line is left out; the rest is compared.
        (
            r"(?m)^Warning: \S+ is stored, but not enforced by caretaker\n",
            "",
        ),
        (
            r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            "UID",
        ),
        (
            r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| ?[+-]\d{4}( UTC)?|[+-]\d\d:\d\d)",
            "TIME",
        ),
        (
            r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d \+0000",
            "TIME",
        ),
        (r"(?m)^[EWI]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", "LOG "),
        (
            r#"(resourceVersion"?: "?|Resource Version: +)\d+"#,
            "${1}RV",
        ),
        (r"https?://127\.0\.0\.1:\d+", "SERVER"),
        (r"127\.0\.0\.1:\d+", "SERVER"),
        (r"\b10\.\d+\.\d+\.\d+\b", "IP"),
        (r"kubectl-edit-\d+", "kubectl-edit-N"),
        (r"[^ ]*(LIVE|MERGED)-\d+/", "$1/"),
        (r"-\d{8,10}\b", "-MINUTE"),
        (&bare_hash, "${1}HASH"),
        (&random_name, "-HASH-NAME"),
        (&hash, "-HASH"),
        (&random, "-NAME"),
        (r"\b(\d{5})/TCP", "PORT/TCP"),
        (r"NodePort:( +)(\S+)  \d{5}/", "NodePort:  $2  PORT/"),
        (r"\b(\d+d)?(\d+h)?(\d+m)?\d+(\.\d+)?m?s\b", "AGE"),
        (r"\b\d+m\b ago", "AGE ago"),
        (r"<invalid>", "AGE"),
        (r"AGE \(x\d+ over AGE\)", "AGE"),
        (r"[ \t]{2,}", "  "),
        (r"(?m)[ \t]+$", ""),
    ];
    let rows = rows.into_iter();
    rows.map(|(pattern, text)| (Regex::new(pattern).expect("a test compiles the rows"), text))
        .collect()
});

/// The output in a form in which two clusters can be compared. `own` are paths of this run and what stands for them.
pub(super) fn normalise(output: &str, own: &[(&str, &str)]) -> String {
    let mut text = output.to_owned();
    for (path, word) in own {
        text = text.replace(path, word);
    }
    for (pattern, word) in ROWS.iter() {
        text = pattern.replace_all(&text, *word).into_owned();
    }
    // Columns are as wide as their longest value.
    let is_rule = |line: &&str| !line.is_empty() && line.chars().all(|c| "- =".contains(c));
    let lines = text.lines();
    let shortened = lines.map(|line| match is_rule(&line) {
        true => line
            .split_whitespace()
            .map(|_| "---")
            .collect::<Vec<_>>()
            .join(" "),
        false => line.to_owned(),
    });
    let mut text = shortened.collect::<Vec<_>>().join("\n");
    text.push('\n');
    text
}

/// The lines between the common beginning and the common end of two outputs.
pub(super) fn differing_lines(real: &str, ours: &str) -> Vec<String> {
    let (mut real, mut ours): (Vec<&str>, Vec<&str>) =
        (real.lines().collect(), ours.lines().collect());
    while let (Some(a), Some(b)) = (real.last(), ours.last())
        && a == b
    {
        real.pop();
        ours.pop();
    }
    let pairs = real.iter().zip(&ours);
    let same = pairs.take_while(|(real, ours)| real == ours).count();
    let lines = |name: &str, lines: &[&str]| {
        let lines = lines[same..].iter();
        lines
            .map(|line| format!("{name}: {line}"))
            .collect::<Vec<_>>()
    };
    [lines("real", &real), lines("ours", &ours)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_one_cluster_are_taken_out() {
        let table = [
            ("uid: 0b9d2f0e-1f5f-4d0f-8b1c-0123456789ab", "uid: UID"),
            ("at 2026-11-18T01:02:03Z", "at TIME"),
            ("at 2026-11-18 01:02:03.123456 +0000 UTC", "at TIME"),
            ("Wed, 18 Nov 2026 01:02:03 +0000", "TIME"),
            ("resourceVersion: \"123\"", "resourceVersion: \"RV\""),
            ("https://127.0.0.1:6443/api", "SERVER/api"),
            (
                "web-6d4cf56db6-x2x5b  1/1  0  12s",
                "web-HASH-NAME  1/1  0  AGE",
            ),
            ("replicaset.apps/web-6d4cf56db6", "replicaset.apps/web-HASH"),
            ("web   2m3s", "web  AGE"),
            ("10.0.12.7", "IP"),
            ("pod-template-hash=6d4cf56db6", "pod-template-hash=HASH"),
            ("kube-root-ca.crt   1      5s", "kube-root-ca.crt  1  AGE"),
        ];
        for (text, normal) in table {
            assert_eq!(normalise(text, &[]), format!("{normal}\n"), "{text}");
        }
        assert_eq!(
            normalise("see /x/y/dump", &[("/x/y", "TMP")]),
            "see TMP/dump\n"
        );
    }

    #[test]
    fn other_values_stay() {
        for text in [
            "deployment.apps/web created",
            "nginx:1.27",
            "revision 2",
            "5/5",
            "cluster-admin",
            "-----x",
        ] {
            assert_eq!(normalise(text, &[]), format!("{text}\n"));
        }
    }

    #[test]
    fn only_lines_that_differ_are_shown() {
        let lines = differing_lines("a\nb\nc\n", "a\nx\ny\nc\n");
        assert_eq!(lines, ["real: b", "ours: x", "ours: y"]);
        assert_eq!(differing_lines("a\n", "a\n"), Vec::<String>::new());
    }
}
