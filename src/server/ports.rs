//! The ports of the listeners, before anything begins. Otherwise Pingora would stay alive without
//! its listener, or abort.

use crate::base::port_holder::{PortHolder, find_port_holder};
use crate::conf::config;
use std::io::{Error, ErrorKind};
use std::net::{SocketAddr, TcpListener};

/// Checks that each address can be bound.
pub(super) fn check_ports(server: &config::Server) -> Result<(), String> {
    // All listeners are held until each is bound, since two of them may exclude each other.
    let mut held: Vec<(SocketAddr, TcpListener)> = Vec::new();
    let admin = server.admin.address;
    let callers = server.listen.iter().map(|listen| listen.address);
    for (index, address) in callers.chain([admin]).enumerate() {
        let listener = TcpListener::bind(address).map_err(|why| {
            let same = held.iter().find(|(other, _)| other.port() == address.port());
            if let Some((other, _)) = same {
                return format!(
                    "cannot listen on {address}: {why}: {other} has the same port; `listen` and `admin` in server.yaml, or --listen, \
                     name the same port twice"
                );
            }
            let holder = find_port_holder(address).filter(|_| why.kind() == ErrorKind::AddrInUse);
            let is_admin = index == server.listen.len();
            format!(
                "cannot listen on {address}: {}choose another address: {}",
                describe_failure(&why, holder),
                if is_admin { "`admin.address` in server.yaml" } else { "`listen` in server.yaml, or --listen" }
            )
        })?;
        held.push((address, listener));
    }
    Ok(())
}

/// Writes why an address cannot be bound, and what to do besides choosing another one.
fn describe_failure(why: &Error, holder: Option<PortHolder>) -> String {
    match holder {
        Some(holder) if holder.is_gateway() => format!(
            "{holder} listens there already. If it is not needed, {}, or ",
            holder.stop_advice()
        ),
        Some(holder) if holder.program == "systemd" => format!(
            "{holder} listens there for a unit that `systemctl list-sockets` names. Stop that socket, or "
        ),
        Some(holder) => format!("{holder} listens there already. Stop it, or "),
        None if why.kind() == ErrorKind::AddrInUse => {
            format!(
                "{why}. `ss -ltnp`, run by root, shows which program listens there. Stop it, or "
            )
        }
        None => format!("{why}; "),
    }
}
