//! Parts of objects with paths of their own.
//!
//! `status` and `finalize` are served, and `binding` has a module of its own. The others appear in discovery because clients look for them; where something
//! outside this server would have to act (a kubelet, a scheduler), the answer says so.

use caretaker_machinery::status::{Details, Status};
use http::Method;

use super::commit::Mode;
use super::{Ask, Reply, binding, get, patch, update};
use crate::deletion::dry_run_of;
use crate::server::Inner;
use crate::strategy::Part;

pub(super) async fn answer(inner: &Inner, ask: &Ask) -> Result<Reply, Status> {
    let part = match ask.subresource.as_deref() {
        Some("status") => Part::Status,
        Some("finalize") => Part::Finalize,
        Some("binding") => return binding::bind(inner, ask, ask.name()).await,
        Some(other) => {
            // Of an object that is not there, that is the answer.
            get::get(inner, ask).await?;
            return Err(not_served(ask, other));
        }
        None => Part::Main,
    };
    match ask.method {
        Method::PUT => {
            let mode = Mode::dry_run(dry_run_of(&ask.query, "UpdateOptions")?);
            update::put(inner, ask, part, mode).await
        }
        Method::PATCH => patch::patch_part(inner, ask, part).await,
        Method::GET => get::get(inner, ask).await,
        _ => Err(Status::method_not_allowed()),
    }
}

/// DEVIATION(subresources): what is not served says so, with 501.
fn not_served(ask: &Ask, part: &str) -> Status {
    let why = match part {
        "log" | "exec" | "attach" | "portforward" | "proxy" => {
            "no kubelet stands behind this server"
        }
        _ => "this server does not serve it yet",
    };
    let message = format!("{}/{part} is not available: {why}", ask.kind.plural);
    Status::failure(501, "NotImplemented", message).with(Details::default())
}
