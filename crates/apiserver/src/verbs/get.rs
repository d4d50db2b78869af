//! GET of one object.

use caretaker_machinery::status::Status;

use super::list::{parse_revision, wait_for};
use super::{Ask, Reply};
use crate::server::Inner;

pub(super) async fn get(inner: &Inner, ask: &Ask) -> Result<Reply, Status> {
    if let Some(text) = ask
        .query
        .get("resourceVersion")
        .filter(|text| !text.is_empty())
    {
        let revision =
            parse_revision(text).map_err(|status| Status::unexplained(status.message))?;
        wait_for(inner, revision).await?;
    }
    let object = inner
        .store
        .get(ask.kind.resource, &ask.key())
        .ok_or_else(|| ask.not_found())?;
    Ok(Reply::Object {
        code: 200,
        object,
        warnings: Vec::new(),
    })
}
