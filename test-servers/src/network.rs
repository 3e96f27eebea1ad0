//! A cluster of three NATS servers, each in a network namespace of its own. A test can interrupt the connections
//! between the servers, and can still reach all servers. This needs root.

use std::process::Command;

use anyhow::{Result, bail};

use crate::nats::{Nats, new_folder};

/// The number of servers.
const SERVER_COUNT: usize = 3;
const CLUSTER_PORT: u16 = 6222;

/// Three servers, and the network between them. Everything is removed when this value is dropped.
#[derive(Debug)]
pub struct Network {
    /// The servers.
    pub servers: Vec<Nats>,
    namespaces: NetworkNamespaces,
}

/// A network bridge, and the namespaces that are connected to it.
#[derive(Debug)]
struct NetworkNamespaces {
    /// The prefix of all names. It is short, because the system limits the length of a name.
    name_prefix: String,
    /// The first three numbers of every address.
    address_prefix: String,
    /// The pairs of servers between which packets are dropped: first the sender, then the receiver.
    interrupted_links: Vec<(usize, usize)>,
}

impl Network {
    /// Starts the cluster. Each server has these lines in its configuration.
    ///
    /// # Errors
    /// The system has no namespaces, this process may not create them, or a server cannot be started.
    pub fn start(settings: &str) -> Result<Self> {
        // Names and addresses contain the process id, so that tests that run at the same time use different ones.
        let id = std::process::id();
        let (name_prefix, address_prefix) =
            (format!("as{}", id % 1_000_000), format!("10.{}.{}", 100 + id / 250 % 100, id % 250));
        let namespaces = NetworkNamespaces { name_prefix, address_prefix, interrupted_links: Vec::new() };
        namespaces.create()?;
        let mut network = Self { servers: Vec::new(), namespaces };
        let routes: Vec<_> =
            (0..SERVER_COUNT).map(|at| format!("nats://{}:{CLUSTER_PORT}", network.namespaces.address(at))).collect();
        for at in 0..SERVER_COUNT {
            let (host, namespace) = (network.namespaces.address(at), network.namespaces.namespace(at));
            // With `no_advertise`, a client does not learn of any server but the one in its URL.
            let cluster = format!(
                "cluster {{ name: tests, listen: \"{host}:{CLUSTER_PORT}\", routes: [{}], no_advertise: true }}",
                routes.join(", ")
            );
            let settings = format!("server_name: n{at}\n{cluster}\n{settings}\n");
            let wrapper = ["ip", "netns", "exec", &namespace];
            network.servers.push(Nats::start_with_host(new_folder(), &wrapper, &host, &settings)?);
        }
        Ok(network)
    }

    /// Interrupts a connection in one direction: what server `from` sends does not reach server `to`.
    ///
    /// # Errors
    /// The command `ip` fails.
    pub fn cut(&mut self, from: usize, to: usize) -> Result<()> {
        self.namespaces.change_route("add", (from, to))?;
        self.namespaces.interrupted_links.push((from, to));
        Ok(())
    }

    /// Cuts a server off from the others, in both directions.
    ///
    /// # Errors
    /// As [`cut`](Self::cut).
    pub fn isolate(&mut self, server: usize) -> Result<()> {
        for other in (0..SERVER_COUNT).filter(|other| *other != server) {
            for (from, to) in [(server, other), (other, server)] {
                if !self.namespaces.interrupted_links.contains(&(from, to)) {
                    self.cut(from, to)?;
                }
            }
        }
        Ok(())
    }

    /// Restores every connection.
    ///
    /// # Errors
    /// As [`cut`](Self::cut).
    pub fn restore(&mut self) -> Result<()> {
        while let Some(link) = self.namespaces.interrupted_links.pop() {
            self.namespaces.change_route("del", link)?;
        }
        Ok(())
    }

    /// Returns whether TCP has recovered: no server still has to resend a lost packet. TCP resends lost packets after
    /// growing delays. So a restored connection may stay silent for as long as it was interrupted.
    ///
    /// # Errors
    /// The command `ip` fails.
    pub fn has_recovered(&self) -> Result<bool> {
        for at in 0..SERVER_COUNT {
            if ip(&format!("netns exec {} ss -Htni", self.namespaces.namespace(at)))?.contains(" backoff:") {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl NetworkNamespaces {
    fn namespace(&self, at: usize) -> String {
        format!("{}n{at}", self.name_prefix)
    }

    fn address(&self, at: usize) -> String {
        format!("{}.{}", self.address_prefix, 10 + at)
    }

    fn create(&self) -> Result<()> {
        let (bridge, address_prefix) = (format!("{}b", self.name_prefix), &self.address_prefix);
        ip(&format!("link add {bridge} type bridge"))?;
        ip(&format!("addr add {address_prefix}.1/24 dev {bridge}"))?;
        ip(&format!("link set {bridge} up"))?;
        for at in 0..SERVER_COUNT {
            let (namespace, link) = (self.namespace(at), format!("{}v{at}", self.name_prefix));
            ip(&format!("netns add {namespace}"))?;
            ip(&format!("link add {link} type veth peer name eth0 netns {namespace}"))?;
            ip(&format!("link set {link} master {bridge} up"))?;
            ip(&format!("-n {namespace} addr add {}/24 dev eth0", self.address(at)))?;
            ip(&format!("-n {namespace} link set eth0 up"))?;
            ip(&format!("-n {namespace} link set lo up"))?;
        }
        Ok(())
    }

    /// Adds or deletes the route that drops all packets from one server to another.
    fn change_route(&self, route_command: &str, (from, to): (usize, usize)) -> Result<()> {
        ip(&format!("-n {} route {route_command} blackhole {}/32", self.namespace(from), self.address(to)))?;
        Ok(())
    }
}

impl Drop for NetworkNamespaces {
    fn drop(&mut self) {
        for at in 0..SERVER_COUNT {
            let _deleted = ip(&format!("netns del {}", self.namespace(at)));
        }
        let _deleted = ip(&format!("link del {}b", self.name_prefix));
    }
}

/// Runs `ip` with these arguments, and returns what it prints.
fn ip(command: &str) -> Result<String> {
    let output = Command::new("ip").args(command.split(' ')).output()?;
    if !output.status.success() {
        bail!("`ip {command}` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
