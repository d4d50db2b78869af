//! DELETE of a collection: a list, then the same delete for each of its objects. Not atomic, as upstream.

use caretaker_machinery::status::Status;

use super::delete::delete_one;
use super::{Ask, Reply, list};
use crate::deletion::DeleteOptions;
use crate::server::Inner;

pub(super) async fn delete(inner: &Inner, ask: &Ask) -> Result<Reply, Status> {
    let list_options = ask.query.list_options()?;
    let options = DeleteOptions::read(&ask.content_type, &ask.body, &ask.query)?;
    let (page, meta) = list::page(inner, ask, &list_options).await?;
    for object in &page.objects {
        match delete_one(inner, &ask.kind, &object.key, &options).await {
            // Somebody else deleted it meanwhile: that is what was wanted.
            Err(status) if status.is("NotFound") => {}
            result => {
                result?;
            }
        }
    }
    Ok(Reply::List { page, meta })
}
