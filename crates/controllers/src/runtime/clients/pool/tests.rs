//! Pools against servers in memory, on tokio's paused clock.

mod server;

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use h2::Reason;
use http_body_util::BodyExt as _;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::*;
use crate::runtime::driver::{HoldPurpose, HoldState, WriteHold};
use server::NextConnection::{CutAfterRequest, GoAwayAtOnce, Hang, Http1, Http2, Refuse};
use server::{NextConnection, ServerCommand, TestDialer};

/// The time after which a connection that does not answer must have been noticed: less than the timeout of a request.
const NOTICED: Duration = Duration::from_secs(26);

fn mk_pool(purpose: ConnectionPurpose, plan: &[NextConnection]) -> (ConnectionPool, TestDialer) {
    let dialer = TestDialer::new(plan);
    let metrics = ConnectionMetrics::default();
    let rng = Rng::seeded(7);
    let pool = ConnectionPool::with_dialer(Box::new(dialer.clone()), purpose, metrics, rng);
    (pool, dialer)
}

fn mk_watches(plan: &[NextConnection]) -> (ConnectionPool, TestDialer) {
    mk_pool(ConnectionPurpose::Watches, plan)
}

fn mk_requests(plan: &[NextConnection]) -> (ConnectionPool, TestDialer) {
    mk_pool(ConnectionPurpose::Requests, plan)
}

fn identity(generation: u64) -> TlsIdentity {
    TlsIdentity::new(generation, None, HttpVersions::All)
}

async fn send_as(
    pool: &ConnectionPool,
    path: &str,
    generation: u64,
) -> Result<Response<PooledBody>, PoolError> {
    let uri = format!("https://test:6443{path}");
    let request = Request::get(uri).body(Body::empty()).unwrap();
    pool.send(request, &identity(generation)).await
}

async fn send(pool: &ConnectionPool, path: &str) -> Result<Response<PooledBody>, PoolError> {
    send_as(pool, path, 0).await
}

/// Sends a request and reads its whole response.
async fn get(pool: &ConnectionPool, path: &str) -> Result<Bytes, PoolError> {
    let response = send(pool, path).await?;
    let body = response.into_body().collect().await;
    Ok(body.map_err(PoolError::Stream)?.to_bytes())
}

/// Opens a watch and reads its first line.
async fn open_watch(pool: &ConnectionPool) -> PooledBody {
    let mut body = send(pool, "/watch").await.unwrap().into_body();
    assert_eq!(line(&mut body).await.unwrap(), "line\n");
    body
}

async fn line(body: &mut PooledBody) -> Result<Bytes, StreamError> {
    let frame = body.frame().await.expect("the body ended")?;
    Ok(frame.into_data().unwrap())
}

/// Lets all tasks run that can.
async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn watches_open_a_connection_when_all_are_full() {
    for (limit, expected) in [(1, 7), (3, 3), (7, 1), (100, 1)] {
        let (pool, dialer) = mk_watches(&[Http2(limit)]);
        let watches = join_all((0..7).map(|_| open_watch(&pool))).await;
        assert_eq!(dialer.connections(), expected, "limit {limit}");
        // Nothing waits behind a watch.
        let answer = timeout(Duration::from_secs(1), get(&pool, "/get")).await;
        assert_eq!(answer.unwrap().unwrap(), "ok", "limit {limit}");
        drop(watches);
    }
}

#[tokio::test(start_paused = true)]
async fn many_watches_are_spread_over_a_few_connections() {
    let (pool, dialer) = mk_watches(&[Http2(100)]);
    let mut watches = join_all((0..57).map(|_| open_watch(&pool))).await;
    assert_eq!(dialer.connections(), 2);
    watches.extend(join_all((0..493).map(|_| open_watch(&pool))).await);
    assert_eq!((watches.len(), dialer.connections()), (550, 6));
    let mut counts = [0; 6];
    for (connection, _) in dialer.requests() {
        counts[connection] += 1;
    }
    assert!(counts.iter().all(|&count| count <= 100), "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_free_again_when_its_response_ends_or_is_dropped() {
    let (pool, dialer) = mk_requests(&[Http2(1)]);
    for _ in 0..3 {
        assert_eq!(get(&pool, "/get").await.unwrap(), "ok");
    }
    drop(open_watch(&pool).await);
    let cancelled = timeout(Duration::from_secs(1), send(&pool, "/hang")).await;
    assert!(cancelled.is_err());
    assert_eq!(get(&pool, "/get").await.unwrap(), "ok");
    assert_eq!(dialer.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_survives_goaway_and_new_streams_go_elsewhere() {
    let (pool, dialer) = mk_watches(&[Http2(100)]);
    let mut old = open_watch(&pool).await;
    dialer.command(0, ServerCommand::GoAway);
    settle().await;
    let new = open_watch(&pool).await;
    assert_eq!(
        dialer.requests()[1].0,
        1,
        "the new watch is on a new connection"
    );
    dialer.command(0, ServerCommand::Line(0));
    assert_eq!(line(&mut old).await.unwrap(), "line\n");
    assert_eq!(dialer.ended(), [0; 0]);
    drop(old);
    settle().await;
    assert_eq!(
        dialer.ended(),
        [0],
        "the old connection closes with its last stream"
    );
    drop(new);
}

#[tokio::test(start_paused = true)]
async fn a_reset_ends_one_stream_only() {
    let (pool, dialer) = mk_watches(&[Http2(100)]);
    let (mut first, mut second) = (open_watch(&pool).await, open_watch(&pool).await);
    dialer.command(0, ServerCommand::Reset(0, Reason::NO_ERROR));
    // A watch or a list that was cut off must not look complete.
    let error = line(&mut first).await.unwrap_err();
    assert!(matches!(error, StreamError::Reset(_)), "{error}");
    dialer.command(0, ServerCommand::Line(1));
    assert_eq!(line(&mut second).await.unwrap(), "line\n");
    drop(open_watch(&pool).await);
    assert_eq!(dialer.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn requests_that_were_not_processed_are_sent_again() {
    let (pool, dialer) = mk_requests(&[Http2(100)]);
    assert_eq!(get(&pool, "/refused").await.unwrap(), "ok");
    assert_eq!(dialer.requests().len(), 2);

    let (pool, dialer) = mk_requests(&[GoAwayAtOnce, GoAwayAtOnce, Http2(100)]);
    assert_eq!(get(&pool, "/get").await.unwrap(), "ok");
    assert_eq!(dialer.connections(), 3);

    // Not for ever.
    let (pool, dialer) = mk_requests(&[GoAwayAtOnce]);
    let error = get(&pool, "/get").await.unwrap_err();
    assert!(
        matches!(&error, PoolError::Stream(StreamError::Refused(_))),
        "{error}"
    );
    assert_eq!(dialer.connections(), 1 + RESENDS_MAX as usize);
}

#[tokio::test(start_paused = true)]
async fn requests_that_may_have_been_processed_are_not_sent_again() {
    let (pool, dialer) = mk_requests(&[Http2(100)]);
    let error = get(&pool, "/broken").await.unwrap_err();
    assert!(
        matches!(&error, PoolError::Stream(StreamError::Reset(_))),
        "{error}"
    );
    assert_eq!(dialer.requests().len(), 1);

    let (pool, dialer) = mk_requests(&[CutAfterRequest, Http2(100)]);
    let error = get(&pool, "/get").await.unwrap_err();
    assert!(
        matches!(&error, PoolError::Stream(StreamError::Broken(_))),
        "{error}"
    );
    assert!(!error.is_unreachable());
    assert_eq!(dialer.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_dead_connection_is_noticed_by_watches_and_by_requests() {
    let (pool, dialer) = mk_requests(&[Http2(100)]);
    let mut open = open_watch(&pool).await;
    dialer.command(0, ServerCommand::Freeze);
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { get(&pool, "/get").await }
    });
    let error = timeout(NOTICED, line(&mut open))
        .await
        .unwrap()
        .unwrap_err();
    assert!(
        error.to_string().contains("no answer to a ping within"),
        "{error}"
    );
    let error = timeout(Duration::from_secs(1), waiting).await.unwrap();
    let error = error.unwrap().unwrap_err();
    assert!(
        error.to_string().contains("no answer to a ping within"),
        "{error}"
    );
    assert_eq!(get(&pool, "/get").await.unwrap(), "ok");
    assert_eq!(dialer.connections(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_answers_pings_stays() {
    let (pool, dialer) = mk_watches(&[Http2(100)]);
    let mut open = open_watch(&pool).await;
    sleep(Duration::from_secs(3600)).await;
    dialer.command(0, ServerCommand::Line(0));
    assert_eq!(line(&mut open).await.unwrap(), "line\n");
    assert_eq!(dialer.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_is_tried_once_at_a_time_with_growing_pauses() {
    let (pool, dialer) = mk_watches(
        &[Refuse; 12]
            .iter()
            .copied()
            .chain([Http2(100)])
            .collect::<Vec<_>>(),
    );
    let begin = tokio::time::Instant::now();
    let callers = (0..57).map(|_| async {
        let mut failures = 0;
        loop {
            match send(&pool, "/watch").await {
                Ok(response) => return (failures, response),
                Err(error) => {
                    assert!(error.is_unreachable(), "{error}");
                    let text = error.to_string();
                    assert_eq!(text, "no connection to test:6443: connection refused");
                    failures += 1;
                }
            }
        }
    });
    let opened = join_all(callers).await;
    assert!(opened.iter().all(|(failures, _)| *failures <= 12));
    let attempts = dialer.attempts();
    // Twelve refusals. Watches that waited do not wait for a second connection.
    assert_eq!(attempts.len(), 12 + 1);
    assert!(
        dialer.attempts_at_once() <= 2,
        "only the first attempts may be two"
    );
    let pauses: Vec<Duration> = attempts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[9] >= Duration::from_secs(5), "{pauses:?}");
    assert!(begin.elapsed() > Duration::from_secs(20), "{pauses:?}");
    assert!(begin.elapsed() < Duration::from_secs(100), "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn the_first_refusal_is_reported_at_once() {
    let (pool, _dialer) = mk_requests(&[Refuse]);
    let begin = tokio::time::Instant::now();
    assert!(get(&pool, "/get").await.unwrap_err().is_unreachable());
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn opening_a_connection_has_a_time_limit() {
    let (pool, _dialer) = mk_requests(&[Hang]);
    let begin = tokio::time::Instant::now();
    let error = get(&pool, "/get").await.unwrap_err();
    assert_eq!(begin.elapsed(), CONNECT_TIMEOUT);
    let expected = "no connection to test:6443: not opened within 10 s";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_all_connections_is_not_called_without_pause() {
    let (pool, dialer) = mk_requests(&[CutAfterRequest]);
    let begin = tokio::time::Instant::now();
    for _ in 0..20 {
        get(&pool, "/get").await.unwrap_err();
    }
    assert!(dialer.connections() <= 20);
    assert!(
        begin.elapsed() > Duration::from_secs(30),
        "{:?}",
        begin.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn http1_connections_take_one_request_at_a_time() {
    let (pool, dialer) = mk_requests(&[Http1]);
    for _ in 0..3 {
        assert_eq!(get(&pool, "/get").await.unwrap(), "ok");
        settle().await;
    }
    assert_eq!(dialer.connections(), 1);
    let mut open = send(&pool, "/watch").await.unwrap().into_body();
    assert_eq!(line(&mut open).await.unwrap(), "line\n");
    assert_eq!(get(&pool, "/get").await.unwrap(), "ok");
    assert_eq!(dialer.connections(), 2);
    // A cancelled request closes its connection, because its response may still arrive.
    settle().await;
    let cancelled = timeout(Duration::from_secs(1), send(&pool, "/hang")).await;
    assert!(cancelled.is_err());
    assert_eq!(get(&pool, "/get").await.unwrap(), "ok");
    assert_eq!((dialer.connections(), dialer.ended()), (3, vec![1]));
}

#[tokio::test(start_paused = true)]
async fn connections_with_old_credentials_keep_their_watches_only() {
    let (pool, dialer) = mk_watches(&[Http2(100)]);
    let mut old = open_watch(&pool).await;
    let new = send_as(&pool, "/watch", 1).await.unwrap();
    assert_eq!(dialer.requests()[1].0, 1);
    // A request that began with the old credentials does not bring them back.
    assert!(send_as(&pool, "/get", 0).await.is_ok());
    assert_eq!((dialer.requests()[2].0, dialer.connections()), (1, 2));
    dialer.command(0, ServerCommand::Line(0));
    assert_eq!(line(&mut old).await.unwrap(), "line\n");
    drop(old);
    settle().await;
    assert_eq!(dialer.ended(), [0]);
    drop(new);
}

#[tokio::test(start_paused = true)]
async fn idle_connections_close_except_for_one() {
    let (pool, dialer) = mk_requests(&[Http2(1)]);
    drop(join_all((0..5).map(|_| open_watch(&pool))).await);
    assert_eq!(dialer.connections(), 5);
    sleep(3 * IDLE_MAX).await;
    assert_eq!(dialer.ended().len(), 4);
    drop(pool);
    settle().await;
    assert_eq!(dialer.ended().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn metrics_count_open_connections_and_failures() {
    let dialer = TestDialer::new(&[Refuse, Http2(1)]);
    let metrics = ConnectionMetrics::default();
    let page = crate::runtime::metrics::ControllerMetrics::new();
    page.add(&metrics);
    let purpose = ConnectionPurpose::Lease;
    let rng = Rng::seeded(7);
    let pool = ConnectionPool::with_dialer(Box::new(dialer), purpose, metrics, rng);
    get(&pool, "/get").await.unwrap_err();
    get(&pool, "/get").await.unwrap();
    let open = r#"caretaker_connections{purpose="lease",protocol="h2"}"#;
    let text = page.encode();
    assert!(text.contains(&format!("{open} 1")), "{text}");
    let failed = r#"caretaker_connection_failures_total{purpose="lease"} 1"#;
    assert!(text.contains(failed), "{text}");
    drop(pool);
    settle().await;
    assert!(page.encode().contains(&format!("{open} 0")));
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_gate_closes_while_it_waits_is_not_sent() {
    let (pool, dialer) = mk_requests(&[Http2(1), Hang]);
    let in_flight = tokio::spawn({
        let pool = pool.clone();
        async move { send(&pool, "/hang").await.map(|_| ()) }
    });
    settle().await;
    let (row, state) = watch::channel(HoldState::Pass);
    let hold = WriteHold::new("test", HoldPurpose::Trouble, state);
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move {
            let mut request = Request::delete("https://test:6443/one")
                .body(Body::empty())
                .unwrap();
            request.extensions_mut().insert(WriteFence::new(&[hold]));
            pool.send(request, &identity(0)).await.map(|_| ())
        }
    });
    settle().await;
    row.send_replace(HoldState::Standby("another leads".into()));
    in_flight.abort();
    let error = waiting.await.unwrap().unwrap_err();
    assert!(
        matches!(&error, PoolError::HeldBack(why) if why == "another leads"),
        "{error}"
    );
    assert_eq!(dialer.requests().len(), 1);
    assert_eq!(get(&pool, "/get").await.unwrap(), "ok");
}
