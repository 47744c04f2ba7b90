package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"moldau/internal/kafka"
)

// Node is what the static settings say about the node itself.
type Node struct {
	ID           kafka.NodeID
	IsBroker     bool
	IsController bool
	Rack         string // "" without one

	Listeners  []Endpoint // of the broker role: what clients and brokers connect to
	Controller []Endpoint // of the controller role; empty on a lone node that names none
	Advertised []Endpoint // as set; empty: the address of the connection is told
	// InterBroker names the listener that brokers use among themselves.
	InterBroker string
	// ControllerListeners names the controllers' listeners; the first is the one brokers use.
	ControllerListeners []string

	Voters    []Voter  // controller.quorum.voters
	Bootstrap []string // controller.quorum.bootstrap.servers, host:port

	LogDirs     []string // at least one; as written
	MetadataDir string   // one of its own or the first of LogDirs
}

// judge checks what concerns several keys and fills in Node.
func (s *Static) judge() []error {
	n := &s.node
	n.Rack = s.Text("broker.rack")
	n.ControllerListeners = upper(s.List("controller.listener.names"))
	n.Bootstrap = s.List("controller.quorum.bootstrap.servers")
	roles := s.List("process.roles")
	n.IsBroker, n.IsController = slices.Contains(roles, "broker"), slices.Contains(roles, "controller")
	var problems []error
	for _, check := range []func() error{s.judgeID, s.judgeListeners, s.judgeInterBroker, s.judgeAdvertised,
		s.judgeQuorum, s.judgeDirs} {
		err := check()
		same := func(p error) bool { return p.Error() == err.Error() }
		if err != nil && !slices.ContainsFunc(problems, same) { // two lists may trip over one wrong map
			problems = append(problems, err)
		}
	}
	return append(problems, s.judgeNumbers()...)
}

func upper(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = strings.ToUpper(s)
	}
	return out
}

// wrong makes a line about a key, with where it was set.
func (s *Static) wrong(key, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if at, ok := s.set[key]; ok {
		return fmt.Errorf("%s: %s: %s", at.Where, key, text)
	}
	return errors.New(key + ": " + text)
}

func (s *Static) judgeID() error {
	id := s.Int64("node.id")
	if s.IsSet("broker.id") {
		old := s.Int64("broker.id")
		switch {
		case !s.IsSet("node.id"):
			id = old
		case old != id:
			return s.wrong("broker.id", "it says %d and node.id says %d; remove broker.id", old, id)
		}
		if id < 0 {
			return s.wrong("broker.id", "%d is too small; allowed: a whole number (32 bit), at least 0", id)
		}
	}
	s.node.ID = kafka.NodeID(id)
	return nil
}

// protocols gives the security protocol of every listener name. Kafka's default map applies when none is set, and
// then controller listeners are plaintext.
func (s *Static) protocols() (map[string]string, error) {
	m, err := parseProtocolMap(s.Text("listener.security.protocol.map"))
	if err != nil {
		return nil, s.wrong("listener.security.protocol.map", "%v", err)
	}
	if !s.IsSet("listener.security.protocol.map") {
		for _, name := range s.node.ControllerListeners {
			if _, ok := m[name]; !ok {
				m[name] = "PLAINTEXT"
			}
		}
	}
	return m, nil
}

// endpoints reads one of the listener lists and refuses what is not plaintext.
func (s *Static) endpoints(key string) ([]Endpoint, error) {
	protocols, err := s.protocols()
	if err != nil {
		return nil, err
	}
	var out []Endpoint
	for _, entry := range s.List(key) {
		e, err := ParseEndpoint(entry)
		if err != nil {
			return nil, s.wrong(key, "%v", err)
		}
		protocol, ok := protocols[e.Listener]
		switch {
		case !ok:
			return nil, s.wrong(key,
				"listener %s has no security protocol; add %s:PLAINTEXT to listener.security.protocol.map",
				e.Listener, e.Listener)
		case protocol != "PLAINTEXT":
			return nil, s.wrong(key, "listener %s asks for %s, which is not built yet; allowed: PLAINTEXT",
				e.Listener, protocol)
		}
		e.Protocol = protocol
		out = append(out, e)
	}
	return out, nil
}

func (s *Static) judgeListeners() error {
	list, err := s.endpoints("listeners")
	if err != nil {
		return err
	}
	if err := checkEndpoints(list); err != nil {
		return s.wrong("listeners", "%v", err)
	}
	n := &s.node
	for _, e := range list {
		if slices.Contains(n.ControllerListeners, e.Listener) {
			n.Controller = append(n.Controller, e)
		} else {
			n.Listeners = append(n.Listeners, e)
		}
	}
	switch {
	case n.IsBroker && len(n.Listeners) == 0:
		return s.wrong("listeners", "a broker needs a listener besides the controller's")
	case !n.IsBroker && s.IsSet("listeners") && len(n.Listeners) > 0:
		return s.wrong("listeners", "%s is no controller listener, and the node has no broker role",
			n.Listeners[0].Listener)
	case !n.IsController && len(n.Controller) > 0:
		return s.wrong("listeners", "%s is a controller listener, and the node has no controller role",
			n.Controller[0].Listener)
	case !n.IsBroker && len(n.Controller) == 0:
		return s.wrong("listeners", "a controller needs one of the listeners in controller.listener.names (%s)",
			strings.Join(n.ControllerListeners, ", "))
	}
	if !n.IsBroker {
		n.Listeners = nil
	}
	return nil
}

// judgeInterBroker finds the listener brokers use among themselves: the one named, else the one that is called like
// the protocol, else the first.
func (s *Static) judgeInterBroker() error {
	const key, other = "inter.broker.listener.name", "security.inter.broker.protocol"
	n := &s.node
	if s.IsSet(key) && s.IsSet(other) {
		return s.wrong(key, "it must not be set together with %s; remove one", other)
	}
	if p := s.Text(other); p != "PLAINTEXT" {
		return s.wrong(other, "%s is not built yet; allowed: PLAINTEXT", p)
	}
	if !n.IsBroker || len(n.Listeners) == 0 {
		return nil
	}
	named := strings.ToUpper(s.Text(key))
	if slices.Contains(n.ControllerListeners, named) && named != "" {
		return s.wrong(key, "%s is a controller listener", named)
	}
	has := func(name string) bool {
		return slices.ContainsFunc(n.Listeners, func(e Endpoint) bool { return e.Listener == name })
	}
	switch {
	case named != "" && !has(named):
		return s.wrong(key, "%s is not one of the listeners", named)
	case named != "":
		n.InterBroker = named
	case has("PLAINTEXT"):
		n.InterBroker = "PLAINTEXT"
	default:
		n.InterBroker = n.Listeners[0].Listener
	}
	return nil
}

func (s *Static) judgeAdvertised() error {
	const key = "advertised.listeners"
	list, err := s.endpoints(key)
	if err != nil {
		return err
	}
	if err := checkAdvertised(list); err != nil {
		return s.wrong(key, "%v", err)
	}
	names := map[string]bool{}
	for _, e := range list {
		known := slices.ContainsFunc(slices.Concat(s.node.Listeners, s.node.Controller),
			func(o Endpoint) bool { return o.Listener == e.Listener })
		switch {
		case names[e.Listener]:
			return s.wrong(key, "listener %s stands there twice", e.Listener)
		case !known && !slices.Contains(s.node.ControllerListeners, e.Listener):
			return s.wrong(key, "%s is not one of the listeners", e.Listener)
		}
		names[e.Listener] = true
	}
	s.node.Advertised = list
	return nil
}

func (s *Static) judgeQuorum() error {
	const key = "controller.quorum.voters"
	n := &s.node
	ids := map[kafka.NodeID]bool{}
	for _, entry := range s.List(key) {
		v, err := parseVoter(entry)
		if err != nil {
			return s.wrong(key, "%v", err)
		}
		if ids[v.ID] {
			return s.wrong(key, "id %d stands there twice", v.ID)
		}
		ids[v.ID] = true
		n.Voters = append(n.Voters, v)
	}
	switch {
	case len(ids) > 0 && n.IsController && !ids[n.ID]:
		return s.wrong(key, "the node is a controller and its id %d is not among the voters", n.ID)
	case len(ids) > 0 && !n.IsController && ids[n.ID]:
		return s.wrong(key, "id %d is this node's, which has no controller role", n.ID)
	case len(ids) > 1 && n.IsController && len(n.Controller) == 0:
		return s.wrong("listeners", "a quorum of %d needs a controller listener (%s)", len(ids),
			strings.Join(n.ControllerListeners, ", "))
	case !n.IsController && len(ids) == 0 && len(n.Bootstrap) == 0:
		return s.wrong("process.roles", "a node without controller role needs controller.quorum.bootstrap.servers "+
			"or controller.quorum.voters")
	}
	return nil
}

func (s *Static) judgeDirs() error {
	n := &s.node
	n.LogDirs = s.List("log.dirs")
	key := "log.dirs"
	if !s.IsSet(key) {
		key = "log.dir"
	}
	seen := map[string]string{}
	for _, dir := range n.LogDirs {
		clean := filepath.Clean(dir)
		if before, twice := seen[clean]; twice {
			return s.wrong(key, "%s and %s are the same directory", before, dir)
		}
		seen[clean] = dir
	}
	n.MetadataDir = s.Text("metadata.log.dir")
	if n.MetadataDir == "" {
		n.MetadataDir = n.LogDirs[0]
	}
	for _, dir := range s.List("cordoned.log.dirs") {
		if dir != "*" && !slices.Contains(n.LogDirs, dir) {
			return s.wrong("cordoned.log.dirs", "%s is not one of log.dirs", dir)
		}
	}
	return nil
}
