//! `meridian bench … | head`: a command whose output nobody reads any more ends without a word.

use std::any::Any;
use std::process::exit;

/// What shells report of a command that the system ended for this reason (128 and the signal's number, 13).
const ENDED_BY_BROKEN_PIPE: i32 = 141;

/// The standard library panics where it cannot print. From here on that ends the process instead. Not for servers: their
/// sessions do not depend on who reads what they print.
pub fn end_quietly() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if is_broken_pipe(panic.payload()) {
            exit(ENDED_BY_BROKEN_PIPE);
        }
        report(panic);
    }));
}

fn is_broken_pipe(payload: &dyn Any) -> bool {
    let message = payload.downcast_ref::<String>().map_or("", String::as_str);
    message.starts_with("failed printing to stdout: Broken pipe")
}
