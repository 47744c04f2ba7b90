package assignor

// Uniform gives all members about equally many partitions and moves few of them: what a member owns it keeps as long as
// that leaves the group balanced. When all subscribe to the same topics, loads differ by one at most.
func Uniform() Assignor { return uniform{} }

type uniform struct{}

func (uniform) Name() string { return "uniform" }

func (uniform) Assign(spec Spec) (Assignment, error) {
	g, err := newGroup(spec)
	if err != nil {
		return nil, err
	}
	if len(g.topics) > 0 {
		g.keepOwned()
		if g.sameTopics() {
			g.spreadEvenly()
		} else {
			g.spreadMixed()
		}
	}
	return g.assignment(), nil
}

// spreadEvenly makes a balanced assignment of the present one when all members subscribe to all topics. Every member is
// entitled to total/members partitions, and total%members of them to one more. The larger shares go to members that
// already have so many, and what is left of them to the last members.
func (g *group) spreadEvenly() {
	floor, larger := len(g.owner)/len(g.members), len(g.owner)%len(g.members)
	held := make([][]int32, len(g.members))
	var loose []int32
	for p, m := range g.owner {
		if m == nobody {
			loose = append(loose, int32(p))
		} else {
			held[m] = append(held[m], int32(p))
		}
	}
	room := make([]int, len(g.members))
	for m, has := range held {
		limit := floor
		switch owed := len(g.members) - m; {
		case larger == 0:
		case len(has) > floor, owed <= larger:
			limit++
			larger--
		}
		for _, p := range has[min(len(has), limit):] {
			g.free(p)
			loose = append(loose, p)
		}
		room[m] = limit - min(len(has), limit)
	}
	for m, n := range room {
		for _, p := range loose[:n] {
			g.give(p, int32(m))
		}
		loose = loose[n:]
	}
}
