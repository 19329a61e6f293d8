//! The portals, and the target ports that they form.
//!
//! Each portal is a target portal group of its own, so it is a SCSI target port of its own (RFC
//! 7143 4.4.1) and has its own relative target port identifier. All ports of an array are one
//! target port group. Both numbers contain the array's number, so they differ between arrays that
//! serve one volume, and each array can compute those of the other.

use parking_lot::Mutex;
use scsi::inquiry::TargetPort;
use std::net::SocketAddr;

/// Relative target port identifiers reserved for each array.
const PORTS_PER_ARRAY: u16 = 256;

/// Target portal group tag: the place of the portal in the order of opening, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PortalTag(pub(crate) u16);

/// All portals of the target.
pub(crate) struct Portals {
    /// Number of the array, from 1.
    array_number: u8,
    open: Mutex<OpenPortals>,
}

#[derive(Default)]
struct OpenPortals {
    addresses: Vec<SocketAddr>,
    /// The target shuts down: no portal is announced any more, but the ports keep their numbers.
    is_closed: bool,
}

impl Portals {
    /// Creates the portals of an array, without any.
    pub(crate) fn new(array_number: u8) -> Self {
        Self { array_number: array_number.max(1), open: Mutex::default() }
    }

    /// Adds a portal.
    pub(crate) fn add(&self, address: SocketAddr) -> PortalTag {
        let mut open = self.open.lock();
        open.addresses.push(address);
        // `serve` limits the portals to 64.
        PortalTag(u16::try_from(open.addresses.len()).unwrap_or(PORTS_PER_ARRAY).min(PORTS_PER_ARRAY))
    }

    /// Ends the announcement of all portals.
    pub(crate) fn close(&self) {
        self.open.lock().is_closed = true;
    }

    /// Returns the addresses of the open portals.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let open = self.open.lock();
        if open.is_closed { Vec::new() } else { open.addresses.clone() }
    }

    /// Returns the relative target port identifier of a portal.
    pub(crate) fn relative(&self, portal: PortalTag) -> u16 {
        relative_of(self.array_number, portal)
    }

    /// Returns the relative target port identifiers of all ports.
    pub(crate) fn relative_ports(&self) -> Vec<u16> {
        let count = self.open.lock().addresses.len() as u16;
        relative_ports_of(self.array_number, count)
    }

    /// Returns the target port group of another array with `ports` portals, and the relative target
    /// port identifiers of its ports, as that array has them. A group has at least one port.
    pub(crate) fn group_of(&self, array_number: u8, ports: u16) -> (u16, Vec<u16>) {
        let number = array_number.max(1);
        (u16::from(number), relative_ports_of(number, ports.max(1)))
    }

    /// Returns the target port of a portal.
    pub(crate) fn port(&self, portal: PortalTag, target_name: String) -> TargetPort {
        let group = u16::from(self.array_number);
        TargetPort { relative: self.relative(portal), group, target_name, portal_group: portal.0 }
    }

    /// Returns `ADDRESS:PORT,TAG` of each portal, each address once, for an initiator that is
    /// connected to `local`. A portal that listens on all addresses is listed with the address that
    /// this initiator used.
    pub(crate) fn target_addresses(&self, local: SocketAddr) -> Vec<String> {
        let mut addresses: Vec<(SocketAddr, usize)> = Vec::new();
        for (at, portal) in self.addresses().into_iter().enumerate() {
            let ip = if portal.ip().is_unspecified() { local.ip() } else { portal.ip() };
            // A connection over IPv4 to a portal of IPv6 has a mapped address.
            let address = SocketAddr::new(ip.to_canonical(), portal.port());
            if addresses.iter().all(|(listed, _)| *listed != address) {
                addresses.push((address, at + 1));
            }
        }
        addresses.iter().map(|(address, tag)| format!("{address},{tag}")).collect()
    }
}

fn relative_of(array_number: u8, portal: PortalTag) -> u16 {
    (u16::from(array_number) - 1) * PORTS_PER_ARRAY + portal.0
}

fn relative_ports_of(array_number: u8, count: u16) -> Vec<u16> {
    (1..=count.min(PORTS_PER_ARRAY)).map(|tag| relative_of(array_number, PortalTag(tag))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_portal_is_listed_once() {
        let portals = Portals::new(1);
        for address in ["[::]:3260", "192.0.2.2:3260", "192.0.2.1:3260", "[2001:db8::1]:3260"] {
            portals.add(address.parse().unwrap());
        }
        let listed = |local: &str| portals.target_addresses(local.parse().unwrap());
        assert_eq!(listed("[::ffff:192.0.2.1]:3260"), ["192.0.2.1:3260,1", "192.0.2.2:3260,2", "[2001:db8::1]:3260,4"]);
        assert_eq!(listed("[2001:db8::1]:3260"), ["[2001:db8::1]:3260,1", "192.0.2.2:3260,2", "192.0.2.1:3260,3"]);
        portals.close();
        assert!(listed("[2001:db8::1]:3260").is_empty());
        assert_eq!(portals.relative_ports(), [1, 2, 3, 4]);
    }

    #[test]
    fn ports_of_two_arrays_never_share_a_number() {
        let ports = |number: u8| {
            let portals = Portals::new(number);
            let add = |port| portals.add(SocketAddr::from(([127, 0, 0, 1], port)));
            [1, 2].map(add).map(|tag| portals.port(tag, String::new()))
        };
        let [first, second] = ports(1);
        assert_eq!((first.relative, first.group, first.portal_group), (1, 1, 1));
        assert_eq!((second.relative, second.group, second.portal_group), (2, 1, 2));
        let [first, second] = ports(255);
        assert_eq!((first.relative, first.group, first.portal_group), (65025, 255, 1));
        assert_eq!((second.relative, second.group, second.portal_group), (65026, 255, 2));
    }

    #[test]
    fn two_arrays_report_the_same_ports_of_each() {
        for (number, count) in [(1, 1), (2, 3), (255, 64)] {
            let (own, other) = (Portals::new(number), Portals::new(9));
            let add = |port| own.add(SocketAddr::from(([127, 0, 0, 1], port)));
            let last = (1..=count).map(add).last().unwrap();
            let group = own.port(last, String::new()).group;
            assert_eq!(other.group_of(number, count), (group, own.relative_ports()));
        }
        assert_eq!(Portals::new(1).group_of(2, 0), (2, vec![257]));
    }
}
