//! Resource quantities and their canonical form.
//!
//! A quantity is a decimal number with a unit: decimal (`500m`, `1k`), binary (`1Gi`) or an exponent (`10e3`). The API
//! server rewrites quantities into a canonical form and keeps the family of units. Mirrors
//! `apimachinery/pkg/api/resource`, 1.36, including its shortcut: a text that looks canonical is kept unchanged. Sums
//! have the family of the first amount that is not zero.
//! DEVIATION(quantity-digits): numbers of more than 38 digits are refused; upstream has no limit.

use std::fmt;

/// An amount and the family of its unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantity {
    /// The amount is `mantissa * 10^scale`.
    mantissa: i128,
    scale: i32,
    family: UnitFamily,
    /// The original text, if it counts as canonical.
    text: Option<String>,
}

/// A text is not a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It does not match the syntax.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Form,
    /// The unit is unknown.
    #[error("unable to parse quantity's suffix")]
    Unit,
    /// The number is too long.
    #[error("unable to parse numeric part of quantity")]
    Number,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnitFamily {
    Decimal,
    Binary,
    Exponent,
}

/// Decimal units and their powers of ten.
const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
/// Binary units, each 1024 times the one before it.
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// The smallest power of ten that an amount keeps; finer amounts are rounded up.
const NANO: i32 = -9;
/// The smallest power of ten in a resource list.
const MILLI: i32 = -3;
/// Longest number, in digits, that may be kept unchanged.
const KEPT_DIGITS_MAX: usize = 18;

/// The parts of the text of a quantity.
struct QuantityParts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    unit: &'a str,
}

// === impl Quantity ===

impl Quantity {
    /// Parses a quantity.
    ///
    /// # Errors
    /// If the text is not a quantity.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let parts = QuantityParts::of(text)?;
        let (family, exponent) = unit(parts.unit)?;
        let digits = format!("{}{}", parts.whole, parts.fraction);
        let mut mantissa: i128 = digits.parse().map_err(|_| QuantityError::Number)?;
        let fraction = i32::try_from(parts.fraction.len()).map_err(|_| QuantityError::Number)?;
        let (scale, kept) = match family {
            UnitFamily::Binary => {
                let kept = parts.fraction.is_empty()
                    && parts.whole.len() + exponent.unsigned_abs() as usize * 3 / 10 < 15
                    && mantissa & 7 != 0;
                let factor = 1_i128 << exponent;
                mantissa = mantissa.checked_mul(factor).ok_or(QuantityError::Number)?;
                (-fraction, kept)
            }
            UnitFamily::Decimal | UnitFamily::Exponent => {
                let scale = exponent
                    .checked_sub(fraction)
                    .ok_or(QuantityError::Number)?;
                let kept = digits.len() <= KEPT_DIGITS_MAX
                    && scale >= NANO
                    && scale % 3 == 0
                    && !digits.ends_with("000")
                    && !digits.starts_with('0');
                (scale, kept)
            }
        };
        let mut quantity = Self {
            mantissa: if parts.negative { -mantissa } else { mantissa },
            scale,
            family,
            text: kept.then(|| text.to_owned()),
        };
        quantity.round_up(NANO);
        quantity.cap();
        Ok(quantity)
    }

    /// The amount rounded up to a thousandth, as resource lists store it.
    #[must_use]
    pub fn rounded_to_milli(mut self) -> Self {
        self.round_up(MILLI);
        self
    }

    /// A number of objects.
    #[must_use]
    pub fn of_count(count: usize) -> Self {
        Self {
            mantissa: i128::try_from(count).unwrap_or(i128::MAX),
            scale: 0,
            family: UnitFamily::Decimal,
            text: None,
        }
    }

    /// The sum of two amounts, saturating.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let (one, two, scale) = self.aligned(other);
        let family = if self.mantissa == 0 {
            other.family
        } else {
            self.family
        };
        Self {
            mantissa: one.saturating_add(two),
            scale,
            family,
            text: None,
        }
    }

    /// Whether this amount is greater than another one.
    #[must_use]
    pub fn exceeds(&self, other: &Self) -> bool {
        let (one, two, _) = self.aligned(other);
        one > two
    }

    /// The amount as a floating-point number, for ratios in messages.
    #[must_use]
    pub fn approximate(&self) -> f64 {
        self.mantissa as f64 * 10_f64.powi(self.scale)
    }

    /// The mantissas of two amounts at the same scale, and that scale.
    fn aligned(&self, other: &Self) -> (i128, i128, i32) {
        let scale = self.scale.min(other.scale);
        let at = |amount: &Self| {
            let factor = 10_i128.saturating_pow(amount.scale.abs_diff(scale));
            amount.mantissa.saturating_mul(factor)
        };
        (at(self), at(other), scale)
    }

    /// Rounds away from zero to `10^scale`.
    fn round_up(&mut self, scale: i32) {
        if self.scale >= scale {
            return;
        }
        let power = u32::try_from(scale - self.scale).unwrap_or(u32::MAX);
        let sign = self.mantissa.signum();
        self.mantissa = match 10_i128.checked_pow(power) {
            Some(divisor) => {
                let up = i128::from(self.mantissa % divisor != 0);
                self.mantissa / divisor + up * sign
            }
            None => sign,
        };
        self.scale = scale;
        self.text = None;
    }

    /// Limits a binary amount to 63 bits.
    fn cap(&mut self) {
        let below = |scale: i32| 10_i128.checked_pow(scale.unsigned_abs());
        if let (UnitFamily::Binary, Some(divisor)) = (self.family, below(self.scale))
            && self.mantissa.abs() / divisor > i128::from(i64::MAX)
        {
            self.mantissa = i128::from(i64::MAX) * self.mantissa.signum();
            self.scale = 0;
        }
    }

    /// The amount, if it is an integer that fits.
    fn whole(&self) -> Option<i128> {
        let divisor = 10_i128.checked_pow(self.scale.unsigned_abs())?;
        match self.scale {
            0.. => self.mantissa.checked_mul(divisor),
            _ if self.mantissa % divisor == 0 => Some(self.mantissa / divisor),
            _ => None,
        }
    }

    fn fmt_binary(&self, amount: i128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut amount, mut unit) = (amount, "");
        for next in BINARY {
            if amount % 1024 != 0 {
                break;
            }
            (amount, unit) = (amount / 1024, next);
        }
        write!(f, "{amount}{unit}")
    }

    fn fmt_decimal(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut mantissa, mut scale) = (self.mantissa, self.scale);
        while mantissa % 10 == 0 {
            (mantissa, scale) = (mantissa / 10, scale + 1);
        }
        let zeros = scale.rem_euclid(3);
        scale -= zeros;
        let zeros = &"00"[..usize::try_from(zeros).unwrap_or(0)];
        let unit = DECIMAL.iter().find(|(_, power)| *power == scale);
        match unit {
            Some((unit, _)) if self.family != UnitFamily::Exponent || unit.is_empty() => {
                write!(f, "{mantissa}{zeros}{unit}")
            }
            _ => write!(f, "{mantissa}{zeros}e{scale}"),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.mantissa == 0 {
            return f.write_str("0");
        }
        if let Some(text) = &self.text {
            return f.write_str(text);
        }
        match self.whole() {
            // Like upstream, amounts below 1024 have no binary unit.
            Some(amount) if self.family == UnitFamily::Binary && amount.abs() >= 1024 => {
                self.fmt_binary(amount, f)
            }
            _ => self.fmt_decimal(f),
        }
    }
}

// === impl QuantityParts ===

impl<'a> QuantityParts<'a> {
    fn of(text: &'a str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Form);
        }
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (whole, rest) = digits(unsigned);
        let (fraction, unit) = match rest.strip_prefix('.') {
            Some(rest) => digits(rest),
            None => ("", rest),
        };
        let exponent = unit.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        if !digits(exponent).1.is_empty() {
            return Err(QuantityError::Form);
        }
        let whole = match whole.trim_start_matches('0') {
            "" => "0",
            whole => whole,
        };
        Ok(Self {
            negative: text.starts_with('-'),
            whole,
            fraction,
            unit,
        })
    }
}

/// Splits the leading digits off a text.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

/// The family of a unit and its power: of two for binary units, of ten for the others.
fn unit(unit: &str) -> Result<(UnitFamily, i32), QuantityError> {
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == unit) {
        return Ok((UnitFamily::Decimal, *power));
    }
    let binary = BINARY.iter().zip(1..).find(|(name, _)| **name == unit);
    if let Some((_, step)) = binary {
        return Ok((UnitFamily::Binary, 10 * step));
    }
    let exponent = unit.strip_prefix(['e', 'E']).ok_or(QuantityError::Unit)?;
    // An i16 is wider than any sensible exponent and cannot overflow a scale.
    let exponent: i16 = exponent.parse().map_err(|_| QuantityError::Unit)?;
    Ok((UnitFamily::Exponent, exponent.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        Quantity::parse(text)
            .map_or_else(|error| error.to_string(), |quantity| quantity.to_string())
    }

    #[test]
    fn writes_canonical_forms_like_upstream() {
        let cases = [
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("1000", "1k"),
            ("1e3", "1e3"),
            ("1E3", "1E3"),
            ("1e4", "10e3"),
            ("12e2", "1200"),
            ("10e2", "1e3"),
            ("1000e3", "1e6"),
            ("0.5e1", "5"),
            ("1.5e1", "1.5e1"),
            ("1.5e-1", "150e-3"),
            ("1500e-3", "1500e-3"),
            ("1e0", "1e0"),
            ("1e19", "10e18"),
            ("+5", "+5"),
            ("5.", "5."),
            (".5", "500m"),
            ("01", "01"),
            ("00", "0"),
            ("0Mi", "0"),
            ("1.0", "1"),
            ("1.50", "1500m"),
            ("-1500m", "-1500m"),
            ("1.5M", "1500k"),
            ("0.15M", "150k"),
            ("1500k", "1500k"),
            ("1000k", "1M"),
            ("1000000", "1M"),
            ("1.5Gi", "1536Mi"),
            ("0.1Mi", "104857600m"),
            ("0.5Ki", "512"),
            ("-0.5Ki", "-512"),
            ("100000Ki", "100000Ki"),
            ("1234567Ki", "1234567Ki"),
            ("2048Ki", "2Mi"),
            ("2048", "2048"),
            ("1E", "1E"),
            ("1Ei", "1Ei"),
            ("100Ei", "9223372036854775807"),
            ("12345678901234567890", "12345678901234567890"),
        ];
        for (given, expected) in cases {
            assert_eq!(canonical(given), expected, "{given}");
        }
    }

    #[test]
    fn rounds_up_amounts_below_the_smallest_step() {
        let milli = |text: &str| {
            let quantity = Quantity::parse(text).unwrap();
            quantity.rounded_to_milli().to_string()
        };
        assert_eq!(canonical("0.00000000001"), "1n");
        assert_eq!(canonical("-0.00000000001"), "-1n");
        for text in ["0.0001", "1n", "100u", "0.00000000001"] {
            assert_eq!(milli(text), "1m", "{text}");
        }
        assert_eq!(milli("1500m"), "1500m");
    }

    #[test]
    fn adds_and_compares_amounts() {
        let parsed = |text: &str| Quantity::parse(text).unwrap();
        let cases = [
            ("500m", "500m", "1"),
            ("1Gi", "512Mi", "1536Mi"),
            ("1", "1Gi", "1073741825"),
            ("0", "1Gi", "1Gi"),
            ("1Gi", "0", "1Gi"),
            ("1e3", "1k", "2e3"),
            ("100m", "1n", "100000001n"),
            ("-1", "1", "0"),
        ];
        for (one, two, sum) in cases {
            assert_eq!(
                parsed(one).plus(&parsed(two)).to_string(),
                sum,
                "{one} {two}"
            );
        }
        assert_eq!(Quantity::of_count(1_000).to_string(), "1k");
        assert!(parsed("1025Mi").exceeds(&parsed("1Gi")));
        assert!(!parsed("1024Mi").exceeds(&parsed("1Gi")));
        assert!(parsed("1").exceeds(&parsed("999m")));
    }

    #[test]
    fn refuses_malformed_quantities() {
        for text in ["", "x", "1Q", "1 ", "1.2.3", "1e3x"] {
            assert_eq!(Quantity::parse(text), Err(QuantityError::Form), "{text}");
        }
        for text in ["1mm", "1e", "1e99999", "--1"] {
            assert_eq!(Quantity::parse(text), Err(QuantityError::Unit), "{text}");
        }
        let long = "1".repeat(60);
        assert_eq!(Quantity::parse(&long), Err(QuantityError::Number));
    }

    proptest::proptest! {
        #[test]
        fn canonical_form_is_stable(text in "[+-]?[0-9]{0,20}(\\.[0-9]{0,12})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e-?[0-9]{1,2})?") {
            if let Ok(quantity) = Quantity::parse(&text) {
                let once = quantity.to_string();
                proptest::prop_assert_eq!(canonical(&once), once);
            }
        }
    }
}
