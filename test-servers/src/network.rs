//! A cluster of three NATS servers, each in a network namespace of its own: lines between them can be cut, while
//! whoever tests reaches all of them. Only root can do that.

use std::process::Command;

use anyhow::{Result, bail};

use crate::nats::{Nats, new_folder};

/// How many servers there are.
const COUNT: usize = 3;
const CLUSTER_PORT: u16 = 6222;

/// Three servers, and the lines between them. All of it goes when it is dropped.
#[derive(Debug)]
pub struct Network {
    /// The servers.
    pub servers: Vec<Nats>,
    net: Net,
}

/// A bridge and the namespaces at it.
#[derive(Debug)]
struct Net {
    /// What names begin with; the system takes no long ones.
    name: String,
    /// The first three numbers of every address.
    prefix: String,
    cut: Vec<(usize, usize)>,
}

impl Network {
    /// Starts a cluster, each server with these lines in its configuration.
    ///
    /// # Errors
    /// The system has no namespaces, or does not let us make them; a server cannot be started.
    pub fn start(settings: &str) -> Result<Self> {
        let id = std::process::id();
        let (name, prefix) = (format!("as{}", id % 1_000_000), format!("10.{}.{}", 100 + id / 250 % 100, id % 250));
        let net = Net { name, prefix, cut: Vec::new() };
        net.make()?;
        let mut network = Self { servers: Vec::new(), net };
        let routes: Vec<_> =
            (0..COUNT).map(|at| format!("nats://{}:{CLUSTER_PORT}", network.net.address(at))).collect();
        for at in 0..COUNT {
            let (host, namespace) = (network.net.address(at), network.net.namespace(at));
            // Clients know the server that they were told, and no other.
            let cluster = format!(
                "cluster {{ name: tests, listen: \"{host}:{CLUSTER_PORT}\", routes: [{}], no_advertise: true }}",
                routes.join(", ")
            );
            let settings = format!("server_name: n{at}\n{cluster}\n{settings}\n");
            let under = ["ip", "netns", "exec", &namespace];
            network.servers.push(Nats::start_as(new_folder(), &under, &host, &settings)?);
        }
        Ok(network)
    }

    /// Cuts a line in one direction: what one server sends does not reach the other.
    ///
    /// # Errors
    /// The system says no.
    pub fn cut(&mut self, from: usize, to: usize) -> Result<()> {
        self.net.route("add", (from, to))?;
        self.net.cut.push((from, to));
        Ok(())
    }

    /// Cuts a server off from the others, in both directions.
    ///
    /// # Errors
    /// As [`cut`](Self::cut).
    pub fn isolate(&mut self, server: usize) -> Result<()> {
        for other in (0..COUNT).filter(|other| *other != server) {
            for line in [(server, other), (other, server)] {
                if !self.net.cut.contains(&line) {
                    self.cut(line.0, line.1)?;
                }
            }
        }
        Ok(())
    }

    /// Mends every line.
    ///
    /// # Errors
    /// As [`cut`](Self::cut).
    pub fn heal(&mut self) -> Result<()> {
        while let Some(line) = self.net.cut.pop() {
            self.net.route("del", line)?;
        }
        Ok(())
    }

    /// Whether the servers send each other everything at once. What was lost on a line that was cut is sent again
    /// later and later, so that it may be silent for as long again as it was cut.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn is_whole(&self) -> Result<bool> {
        for at in 0..COUNT {
            if ip(&format!("netns exec {} ss -Htni", self.net.namespace(at)))?.contains(" backoff:") {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Net {
    fn namespace(&self, at: usize) -> String {
        format!("{}n{at}", self.name)
    }

    fn address(&self, at: usize) -> String {
        format!("{}.{}", self.prefix, 10 + at)
    }

    fn make(&self) -> Result<()> {
        let (bridge, prefix) = (format!("{}b", self.name), &self.prefix);
        ip(&format!("link add {bridge} type bridge"))?;
        ip(&format!("addr add {prefix}.1/24 dev {bridge}"))?;
        ip(&format!("link set {bridge} up"))?;
        for at in 0..COUNT {
            let (namespace, line) = (self.namespace(at), format!("{}v{at}", self.name));
            ip(&format!("netns add {namespace}"))?;
            ip(&format!("link add {line} type veth peer name eth0 netns {namespace}"))?;
            ip(&format!("link set {line} master {bridge} up"))?;
            ip(&format!("-n {namespace} addr add {}/24 dev eth0", self.address(at)))?;
            ip(&format!("-n {namespace} link set eth0 up"))?;
            ip(&format!("-n {namespace} link set lo up"))?;
        }
        Ok(())
    }

    /// Packets to the other server go nowhere, or where they belong again.
    fn route(&self, act: &str, (from, to): (usize, usize)) -> Result<()> {
        ip(&format!("-n {} route {act} blackhole {}/32", self.namespace(from), self.address(to)))?;
        Ok(())
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for at in 0..COUNT {
            let _gone = ip(&format!("netns del {}", self.namespace(at)));
        }
        let _gone = ip(&format!("link del {}b", self.name));
    }
}

/// What the command prints.
fn ip(command: &str) -> Result<String> {
    let done = Command::new("ip").args(command.split(' ')).output()?;
    if !done.status.success() {
        bail!("`ip {command}` failed: {}", String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
