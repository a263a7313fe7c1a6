//! Checks that the ports of all listeners are free, before anything else begins. Without this check
//! Pingora would abort, or would run on without the listener.

use crate::base::port_holder::{PortHolder, exclude_each_other, find_port_holder};
use crate::conf::config;
use std::io::{Error, ErrorKind};
use std::net::{SocketAddr, TcpListener};

/// Binds each address once, and frees all of them again. The error says which address is taken, by
/// whom, and what to do.
pub(super) fn check_ports(server: &config::Server) -> Result<(), String> {
    let callers = server
        .listen
        .iter()
        .map(|listen| (listen.address, "`listen` in server.yaml, or --listen"));
    let admin = (server.admin.address, "`admin.address` in server.yaml");
    // Each listener is kept until the end, so that two addresses that exclude each other are found.
    let mut held: Vec<(SocketAddr, TcpListener)> = Vec::new();
    for (address, setting) in callers.chain([admin]) {
        match TcpListener::bind(address) {
            Ok(listener) => held.push((address, listener)),
            Err(error) => return Err(describe_bind_error(address, &error, &held, setting)),
        }
    }
    Ok(())
}

/// Writes why an address cannot be bound, and what to do. `setting` is where the address is chosen.
fn describe_bind_error(
    address: SocketAddr,
    error: &Error,
    held: &[(SocketAddr, TcpListener)],
    setting: &str,
) -> String {
    let is_taken = error.kind() == ErrorKind::AddrInUse;
    let conflicting = held
        .iter()
        .find(|(other, _)| is_taken && exclude_each_other(*other, address));
    if let Some((other, _)) = conflicting {
        return format!(
            "cannot listen on {address}: {error}: {other} has the same port; `listen` and `admin` in server.yaml, or --listen, \
             name the same port twice"
        );
    }
    let holder = if is_taken {
        find_port_holder(address)
    } else {
        None
    };
    format!(
        "cannot listen on {address}: {}choose another address: {setting}",
        describe_cause(error, holder)
    )
}

/// Writes the first half of the advice: who listens there and how to stop it, or else the error.
/// The text ends so that `choose another address` can follow.
fn describe_cause(error: &Error, holder: Option<PortHolder>) -> String {
    match holder {
        Some(holder) if holder.is_gateway() => format!(
            "{holder} listens there already. If it is not needed, {}, or ",
            holder.stop_advice()
        ),
        Some(holder) if holder.program == "systemd" => format!(
            "{holder} listens there for a unit that `systemctl list-sockets` names. Stop that socket, or "
        ),
        Some(holder) => format!("{holder} listens there already. Stop it, or "),
        None if error.kind() == ErrorKind::AddrInUse => {
            format!(
                "{error}. `ss -ltnp`, run by root, shows which program listens there. Stop it, or "
            )
        }
        None => format!("{error}; "),
    }
}
