package diff

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/interop/raw"
)

// groupWorld is what one broker has told about its groups.
type groupWorld struct {
	*World
	c       *raw.Conn // for requests that are answered at once
	addr    string
	classic map[string][]*classicMember // by group, in order of joining
	joined  map[string]bool             // groups whose members have not asked for their assignments yet
	left    map[string]bool             // groups that somebody has left since
	gone    []*classicMember            // that have left or were replaced
	modern  map[string]map[string]*modernMember
	names   map[string]string // of member ids, which brokers choose
}

// classicMember is a member of the classic protocol. Its joins wait for others, so it has a connection of its own.
type classicMember struct {
	c          *raw.Conn
	id         string
	instance   *string
	generation int32
	leads      bool
	sticky     bool // it knows no other assignor
	protocols  []string
}

// modernMember is a member of the consumer protocol.
type modernMember struct {
	epoch    int32
	assigned []kmsg.ConsumerGroupHeartbeatRequestTopic
}

// action is one step of a history; its answers are those of every request that it sends.
type action struct {
	name string
	run  func(w *groupWorld) []any
}

// RunGroups sends the history of a seed to the broker at addr.
func RunGroups(addr string, seed uint64, n int, settle time.Duration) ([]Answer, error) {
	w := &groupWorld{World: &World{topics: map[string][16]byte{}, ids: map[[16]byte]string{}, settle: settle}, addr: addr,
		classic: map[string][]*classicMember{}, joined: map[string]bool{}, left: map[string]bool{}, modern: map[string]map[string]*modernMember{}, names: map[string]string{}}
	w.World.members = w.names
	w.c = raw.New(addr, clientID)
	defer w.c.Close()
	if err := w.ready(); err != nil {
		return nil, err
	}
	var out []Answer
	for i, a := range GenerateGroups(seed, n) {
		out = append(out, Answer{Step: fmt.Sprintf("%04d %s", i, a.name), Text: a.run(w)})
	}
	for _, ms := range w.classic {
		for _, m := range ms {
			m.c.Close()
		}
	}
	return out, nil
}

// ready waits until the broker coordinates groups, and makes the topics.
func (w *groupWorld) ready() error {
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis = 7, 10000
	for i := range int32(groupTopics) {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = fmt.Sprintf("t%d", i), 3+i, 1
		create.Topics = append(create.Topics, t)
	}
	resp, err := w.c.Send(create)
	if err != nil {
		return err
	}
	w.learn(resp)
	time.Sleep(w.settle)
	for range 200 {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.Version, find.CoordinatorKey = 3, "g0"
		resp, err := w.c.Send(find)
		if err != nil {
			return err
		}
		if resp.(*kmsg.FindCoordinatorResponse).ErrorCode == 0 {
			describe := kmsg.NewPtrDescribeGroupsRequest()
			describe.Groups = []string{"g0"}
			if resp, err := w.c.Send(describe); err == nil && resp.(*kmsg.DescribeGroupsResponse).Groups[0].ErrorCode == 0 {
				return nil
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.New("the broker does not coordinate groups")
}

// ask sends a request that is answered at once.
func (w *groupWorld) ask(req kmsg.Request) (kmsg.Response, any) {
	resp, err := w.c.Send(req)
	w.meet(resp)
	return resp, normalise(w.World, resp, err)
}

// meet gives member ids their names.
func (w *groupWorld) meet(resp kmsg.Response) {
	if r, ok := resp.(*kmsg.JoinGroupResponse); ok && r.MemberID != "" && w.names[r.MemberID] == "" && r.MemberID != "ghost" {
		w.names[r.MemberID] = fmt.Sprintf("member %d", len(w.names))
	}
}

// apart is how long the next request of several waits for the one before to arrive.
const apart = 25 * time.Millisecond

// together sends requests on connections of their own, in order and without waiting for the answers before.
func (w *groupWorld) together(conns []*raw.Conn, reqs []kmsg.Request) []kmsg.Response {
	out, errs := make([]kmsg.Response, len(reqs)), make([]error, len(reqs))
	var waiting sync.WaitGroup
	for i, req := range reqs {
		waiting.Go(func() { out[i], errs[i] = conns[i].Send(req) })
		time.Sleep(apart)
	}
	waiting.Wait()
	for i, resp := range out {
		if errs[i] != nil && !errors.Is(errs[i], io.EOF) && !errors.Is(errs[i], raw.ErrNoAnswer) {
			out[i] = nil
		}
		w.meet(resp)
	}
	return out
}

func (w *groupWorld) normalised(resps []kmsg.Response) []any {
	var out []any
	for _, r := range resps {
		if r == nil {
			out = append(out, "no answer")
			continue
		}
		out = append(out, normalise(w.World, r, nil))
	}
	return out
}

// member picks the i-th member of a group, or a ghost.
func (w *groupWorld) member(group string, i int) *classicMember {
	ms := w.classic[group]
	if i < 0 || len(ms) == 0 {
		return &classicMember{id: "ghost", generation: 1}
	}
	return ms[i%len(ms)]
}

// former picks a member that has left, or a ghost.
func (w *groupWorld) former(i int) *classicMember {
	if len(w.gone) == 0 {
		return &classicMember{id: "ghost", generation: 1}
	}
	return w.gone[i%len(w.gone)]
}

func (w *groupWorld) drop(group string, m *classicMember) {
	w.left[group] = true
	w.classic[group] = slices.DeleteFunc(w.classic[group], func(x *classicMember) bool { return x == m })
	w.gone = append(w.gone, m)
	if m.c != nil {
		m.c.Close()
	}
}

// never is longer than a history takes (ms): no timeout may decide what happens.
const never = 1800000

// newcomer is how somebody joins.
type newcomer struct {
	version   int16
	instance  string
	protocols []string
}

func (n newcomer) request(group, id string) *kmsg.JoinGroupRequest {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version, r.Group, r.MemberID, r.ProtocolType = n.version, group, id, "consumer"
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = never, never
	if n.instance != "" && n.version >= 5 {
		r.InstanceID = &n.instance
	}
	for _, p := range n.protocols {
		r.Protocols = append(r.Protocols, kmsg.JoinGroupRequestProtocol{Name: p, Metadata: []byte("meta " + strings.Join(n.protocols, "+"))})
	}
	return r
}

func (n newcomer) sticky() bool { return n.protocols[0] == "sticky" }

// static finds the member of an instance id.
func (w *groupWorld) static(group, instance string) *classicMember {
	for _, m := range w.classic[group] {
		if m.instance != nil && *m.instance == instance {
			return m
		}
	}
	return nil
}

// replace has a static member of a stable group start again, without the id it had and with what it said before: nobody
// else hears of it.
func (w *groupWorld) replace(group, instance string, version int16) []any {
	old := w.static(group, instance)
	if old == nil || w.joined[group] || w.left[group] {
		return []any{"nobody to replace"}
	}
	resp, answer := w.ask(newcomer{version, instance, old.protocols}.request(group, ""))
	if r, ok := resp.(*kmsg.JoinGroupResponse); ok && r.ErrorCode == 0 {
		before := *old
		before.c = nil
		w.gone = append(w.gone, &before)
		old.id, old.generation, old.leads = r.MemberID, r.Generation, old.leads || r.LeaderID == r.MemberID
	}
	return []any{answer}
}

// rebalance has newcomers join a group and every member of it join again. The newcomers come first: whatever state the
// group is in, they begin a rebalance that the members can complete.
func (w *groupWorld) rebalance(group string, again newcomer, newcomers []newcomer) []any {
	var answers []any
	members := w.classic[group]
	welcome := func(n newcomer) bool { return len(members) == 0 || members[0].sticky == n.sticky() }
	if w.joined[group] && !slices.ContainsFunc(newcomers, welcome) { // who joins again now would just be answered again
		answers = w.synchronise(group, 3)
	}
	if len(members) == 0 { // the first member of an empty group waits for nobody
		newcomers = newcomers[:min(1, len(newcomers))]
	}
	var joining []*classicMember
	var reqs []kmsg.Request
	for _, n := range newcomers {
		m := &classicMember{c: raw.New(w.addr, clientID), sticky: n.sticky(), protocols: n.protocols}
		if w.static(group, n.instance) != nil {
			n.instance = "" // that is for replace
		}
		req := n.request(group, "")
		m.instance = req.InstanceID
		if n.version >= 4 && m.instance == nil {
			resp, err := m.c.Send(req)
			w.meet(resp)
			answers = append(answers, normalise(w.World, resp, err))
			if r, ok := resp.(*kmsg.JoinGroupResponse); ok {
				m.id = r.MemberID
			}
			req = n.request(group, m.id)
		}
		joining, reqs = append(joining, m), append(reqs, req)
	}
	leaders := slices.SortedStableFunc(slices.Values(members), func(a, b *classicMember) int {
		return boolToInt(b.leads) - boolToInt(a.leads)
	})
	for _, m := range leaders {
		if !m.sticky { // who is refused would keep all others waiting
			m.protocols = again.protocols
		}
		req := newcomer{version: again.version, protocols: m.protocols}.request(group, m.id)
		if req.InstanceID = m.instance; req.InstanceID != nil {
			req.Version = max(req.Version, 5)
		}
		joining, reqs = append(joining, m), append(reqs, req)
	}
	conns := make([]*raw.Conn, len(joining))
	for i, m := range joining {
		conns[i] = m.c
	}
	resps := w.together(conns, reqs)
	w.classic[group], w.joined[group], w.left[group] = nil, true, false
	for i, resp := range resps {
		m := joining[i]
		r, ok := resp.(*kmsg.JoinGroupResponse)
		if !ok || r.ErrorCode != 0 {
			w.gone = append(w.gone, m)
			continue
		}
		m.id, m.generation, m.leads = r.MemberID, r.Generation, r.LeaderID == r.MemberID
		w.classic[group] = append(w.classic[group], m)
	}
	return append(answers, w.normalised(resps)...)
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// synchronise gives every member of a group its assignment: the leader comes last, with everybody's.
func (w *groupWorld) synchronise(group string, version int16) []any {
	members := slices.SortedStableFunc(slices.Values(w.classic[group]), func(a, b *classicMember) int {
		return boolToInt(a.leads) - boolToInt(b.leads)
	})
	if !slices.ContainsFunc(members, func(m *classicMember) bool { return m.leads }) {
		return []any{"nobody leads"} // and so nobody would be answered
	}
	w.joined[group] = false
	var conns []*raw.Conn
	var reqs []kmsg.Request
	for _, m := range members {
		r := kmsg.NewPtrSyncGroupRequest()
		r.Version, r.Group, r.MemberID, r.Generation, r.InstanceID = version, group, m.id, m.generation, m.instance
		if m.instance != nil {
			r.Version = max(r.Version, 3)
		}
		if m.leads {
			for i, x := range w.classic[group] {
				r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: x.id,
					MemberAssignment: fmt.Append(nil, "share ", i)})
			}
		}
		conns, reqs = append(conns, m.c), append(reqs, r)
	}
	return w.normalised(w.together(conns, reqs))
}
