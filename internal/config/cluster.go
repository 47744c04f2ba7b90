package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// ControllerPortStep is how far a controller's port lies above the port for clients, in a cluster that is given by its
// client addresses.
const ControllerPortStep = 1000

// ClusterKey is the key that holds the addresses of a cluster that settles itself.
const ClusterKey = "moldau.cluster"

// ClusterOptions say which of a cluster's nodes a process is.
type ClusterOptions struct {
	// Listen is host:port to serve clients on, when it was said; it tells which entry the process is.
	Listen string
	// IsLocal says whether a host name or address is this machine's.
	IsLocal func(host string) bool
}

// Cluster gives the settings of a node of a cluster that is named by the addresses clients use and nothing else: its
// listeners, where the controllers are, a data directory that carries the port, and the list itself. They go below all
// others. nodes is the size of the cluster. Errors say what is wrong with the list, or that it does not tell which entry
// this process is.
func Cluster(list string, o ClusterOptions) (layer Layer, nodes int, err error) {
	all, err := ParseCluster(list)
	if err != nil {
		return Layer{}, 0, err
	}
	own, err := ownEntry(all, o)
	if err != nil {
		return Layer{}, 0, err
	}
	bind := own
	if o.Listen != "" {
		if bind.Host, bind.Port, err = ParseHostPort(o.Listen); err != nil {
			return Layer{}, 0, err
		}
	}
	var entries, controllers []string
	for _, e := range all {
		entries = append(entries, e.Address())
		controllers = append(controllers, e.controller().Address())
	}
	at := own.controller()
	at.Host = bind.Host
	return MapLayer("--cluster", map[string]string{
		ClusterKey:                            strings.Join(entries, ","),
		"listeners":                           "PLAINTEXT://" + bind.Address() + ",CONTROLLER://" + at.Address(),
		"advertised.listeners":                "PLAINTEXT://" + own.Address() + ",CONTROLLER://" + own.controller().Address(),
		"controller.listener.names":           "CONTROLLER",
		"controller.quorum.bootstrap.servers": strings.Join(controllers, ","),
		"controller.quorum.auto.join.enable":  "true",
		"log.dirs":                            "./moldau-data-" + strconv.Itoa(own.Port),
	}), len(all), nil
}

func (e Endpoint) controller() Endpoint {
	e.Port += ControllerPortStep
	return e
}

// ParseCluster reads a list of host:port entries into the order that numbers the nodes.
func ParseCluster(list string) ([]Endpoint, error) {
	var out []Endpoint
	for _, entry := range splitList(list) {
		host, port, err := ParseHostPort(entry)
		if err != nil {
			return nil, err
		}
		if host == "" || port == 0 || port+ControllerPortStep > 65535 {
			return nil, fmt.Errorf("%q: a node needs a host that the others reach, and a port from 1 to %d (its controller listens %d above)",
				entry, 65535-ControllerPortStep, ControllerPortStep)
		}
		out = append(out, Endpoint{Host: strings.ToLower(host), Port: port})
	}
	if len(out) == 0 {
		return nil, errors.New("the list names no node")
	}
	slices.SortFunc(out, func(a, b Endpoint) int { return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port)) })
	for i := range out[1:] {
		if out[i] == out[i+1] {
			return nil, fmt.Errorf("%s stands there twice", out[i].Address())
		}
	}
	return out, nil
}

// ownEntry finds the entry that is this process: the one whose address it listens on, or the only one on this machine.
func ownEntry(all []Endpoint, o ClusterOptions) (Endpoint, error) {
	candidates := all
	if o.Listen != "" {
		host, port, err := ParseHostPort(o.Listen)
		if err != nil {
			return Endpoint{}, err
		}
		samePort := func(e Endpoint) bool { return e.Port != port }
		candidates = slices.DeleteFunc(slices.Clone(all), samePort)
		if i := slices.IndexFunc(candidates, func(e Endpoint) bool { return strings.EqualFold(e.Host, host) }); i >= 0 {
			return candidates[i], nil
		}
		if len(candidates) == 1 {
			return candidates[0], nil
		}
	}
	local := slices.DeleteFunc(slices.Clone(candidates), func(e Endpoint) bool { return !o.IsLocal(e.Host) })
	switch len(local) {
	case 1:
		return local[0], nil
	case 0:
		return Endpoint{}, errors.New("none of the nodes is on this machine; say with --listen HOST:PORT which one this is")
	}
	return Endpoint{}, fmt.Errorf("%s and %s are both on this machine; say with --listen HOST:PORT which one this is",
		local[0].Address(), local[1].Address())
}

// LocalHost says whether a host name or address is this machine's.
func LocalHost(host string) bool {
	ips, err := net.LookupIP(host)
	if err != nil {
		return false
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, ip := range ips {
		if ip.IsLoopback() || slices.ContainsFunc(own, func(a net.Addr) bool {
			n, ok := a.(*net.IPNet)
			return ok && n.IP.Equal(ip)
		}) {
			return true
		}
	}
	return false
}
