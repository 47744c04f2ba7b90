package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"moldau/internal/kafka"
)

// Endpoint is one entry of listeners or advertised.listeners.
type Endpoint struct {
	Listener string // name, upper case
	Host     string // empty: all interfaces
	Port     int    // 0: any free port
	Protocol string // security protocol of the listener's name
}

// Address gives host:port, with brackets around an IPv6 address.
func (e Endpoint) Address() string { return net.JoinHostPort(e.Host, strconv.Itoa(e.Port)) }

// String gives the form of server.properties.
func (e Endpoint) String() string { return e.Listener + "://" + e.Address() }

// Voter is one entry of controller.quorum.voters.
type Voter struct {
	ID   kafka.NodeID
	Host string
	Port int
}

var (
	endpointForm = regexp.MustCompile(`^(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)$`)
	listenerName = regexp.MustCompile(`^[A-Za-z0-9_\-]+$`)
	hostPortForm = `\[?[0-9a-zA-Z\-%._:]+\]?:[0-9]+`
	voterList    = listRule{entry: regexp.MustCompile(`^[0-9]+@` + hostPortForm + `$`), form: "id@host:port",
		keepRepeats: true}
	// bootstrapList keeps repeated entries, as Kafka does here.
	bootstrapList = listRule{entry: regexp.MustCompile(`^` + hostPortForm + `$`), form: "host:port", keepRepeats: true}
)

// ParseEndpoint reads one NAME://host:port.
func ParseEndpoint(s string) (Endpoint, error) {
	m := endpointForm.FindStringSubmatch(trim(s))
	if m == nil || !listenerName.MatchString(m[1]) {
		return Endpoint{}, fmt.Errorf("%q is not NAME://host:port", s)
	}
	port, err := strconv.Atoi(m[3])
	if err != nil || port < 0 || port > 65535 {
		return Endpoint{}, fmt.Errorf("%q: the port must be from 0 to 65535", s)
	}
	return Endpoint{Listener: strings.ToUpper(m[1]), Host: m[2], Port: port}, nil
}

// ParseHostPort reads host:port; an IPv6 host stands in brackets.
func ParseHostPort(s string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(trim(s))
	if err != nil {
		return "", 0, fmt.Errorf("%q is not host:port", s)
	}
	port, err = strconv.Atoi(p)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("%q: the port must be from 0 to 65535", s)
	}
	return host, port, nil
}

// judgeAdmin is the rule of moldau.admin.listener.
func judgeAdmin(s string) string {
	if s == "" {
		return ""
	}
	if _, _, err := ParseHostPort(s); err != nil {
		return err.Error()
	}
	return ""
}

func parseVoter(s string) (Voter, error) {
	id, address, ok := strings.Cut(s, "@")
	n, err := strconv.ParseInt(id, 10, 32)
	if !ok || err != nil {
		return Voter{}, fmt.Errorf("%q is not id@host:port", s)
	}
	host, port, err := ParseHostPort(address)
	return Voter{ID: kafka.NodeID(n), Host: host, Port: port}, err
}

// parseProtocolMap reads listener.security.protocol.map into listener name (upper case) to protocol.
func parseProtocolMap(s string) (map[string]string, error) {
	out := map[string]string{}
	for _, part := range splitList(s) {
		i := strings.LastIndexByte(part, ':')
		if i <= 0 {
			return nil, fmt.Errorf("%q is not NAME:PROTOCOL", part)
		}
		name, protocol := strings.ToUpper(trim(part[:i])), strings.ToUpper(trim(part[i+1:]))
		switch protocol {
		case "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL":
		default:
			return nil, fmt.Errorf("%q: the protocol must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL", part)
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("listener %s stands in the map twice", name)
		}
		out[name] = protocol
	}
	return out, nil
}

// checkEndpoints refuses two listeners of one name, and two of one port unless one is an IPv4 and the other an IPv6
// address (KIP-797).
func checkEndpoints(list []Endpoint) error {
	names, ports := map[string]bool{}, map[int][]Endpoint{}
	for _, e := range list {
		if names[e.Listener] {
			return fmt.Errorf("listener %s stands there twice; each needs a name of its own", e.Listener)
		}
		names[e.Listener] = true
		for _, other := range ports[e.Port] {
			if e.Port != 0 && !twoFamilies(e.Host, other.Host) {
				return fmt.Errorf("%s and %s use the same port", other, e)
			}
		}
		ports[e.Port] = append(ports[e.Port], e)
	}
	return nil
}

func twoFamilies(a, b string) bool {
	x, errA := netip.ParseAddr(a)
	y, errB := netip.ParseAddr(b)
	return errA == nil && errB == nil && x.Is4() != y.Is4()
}

// checkAdvertised refuses addresses that no client could connect to.
func checkAdvertised(list []Endpoint) error {
	for _, e := range list {
		if addr, err := netip.ParseAddr(e.Host); err == nil && addr.IsUnspecified() {
			return fmt.Errorf("%s: %s is no address that clients can connect to; name the host", e, e.Host)
		}
		if e.Host == "" {
			return errors.New(e.String() + ": name the host that clients connect to")
		}
	}
	return nil
}
