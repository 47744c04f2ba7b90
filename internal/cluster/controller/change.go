package controller

import (
	"slices"

	"moldau/internal/cluster/metadata"
	"moldau/internal/flaw"
	"moldau/internal/kafka"
)

// election says who may become leader when a partition changes.
type election int8

const (
	electOnline    election = iota // keep the leader; else the ISR, or the ELR when the ISR is empty
	electPreferred                 // the first replica if it is eligible
	electUnclean                   // as electOnline, and at last any live replica, at the price of data
)

// change is a partition on its way to its next state. Fill in the target and ask for the record: all rules of
// elections, eligible leader replicas and reassignments are applied there, in the order of Kafka.
type change struct {
	ref      metadata.PartitionRef
	election election
	// eligible says whether a broker may lead: alive, and the replica's directory online.
	eligible func(kafka.NodeID) bool
	minISR   int // as set; the number of replicas bounds it
	elrOn    bool
	mv       int16

	isr, replicas, adding, removing, elr []kafka.NodeID
	recovering                           bool
	// lost are brokers that stopped uncleanly: what they had acknowledged may be gone.
	lost []kafka.NodeID
	// dirs are new directories of replicas.
	dirs       map[kafka.NodeID]kafka.UUID
	defaultDir func(kafka.NodeID) kafka.UUID

	out *metadata.PartitionChangeRecord
}

// mvIsrShrinkKeepsEpoch is the metadata.version from which a smaller ISR does not bump the leader epoch
// (KAFKA-15021).
const mvIsrShrinkKeepsEpoch = 12

// changeOf starts a change of a partition that leads nowhere yet. alive says who may lead as far as the
// broker goes.
func (t *turn) changeOf(ref metadata.PartitionRef, alive func(kafka.NodeID) bool) *change {
	p, facts := ref.Partition, t.factsOf(ref.Topic)
	c := &change{ref: ref, minISR: facts.minISR, elrOn: t.elr, mv: t.mv, isr: p.ISR, replicas: p.Replicas,
		adding: p.Adding, removing: p.Removing, elr: p.ELR, recovering: p.Recovering,
		defaultDir: t.defaultDirectory}
	c.eligible = func(id kafka.NodeID) bool {
		b, ok := t.Image.Broker(id)
		return ok && alive(id) && b.DirectoryOnline(p.Directory(id))
	}
	if facts.unclean {
		c.election = electUnclean
	}
	return c
}

// record gives the change as a record, nil when nothing changes.
func (c *change) record() *metadata.PartitionChangeRecord {
	c.out = &metadata.PartitionChangeRecord{PartitionID: c.ref.Index, TopicID: c.ref.Topic.ID}
	c.completeReassignment()
	c.populateELR()
	unclean := c.elect()
	c.bumpForReassignment()
	c.writeELR(unclean)
	if c.out.ISR == nil && (len(c.isr) > 0 || c.elrOn) && !slices.Equal(c.isr, c.ref.Partition.ISR) {
		c.out.ISR = notNil(c.isr)
	}
	c.bumpForShrink()
	c.writeLastKnownLeader()
	c.writeAssignment()
	if c.out.LeaderRecoveryState == nil && c.recovering != c.ref.Partition.Recovering {
		c.out.LeaderRecoveryState = recoveryState(c.recovering)
	}
	if isNoOp(c.out) {
		return nil
	}
	return c.out
}

// populateELR keeps who leaves an ISR that becomes smaller than min.insync.replicas eligible to lead
// (KIP-966): it holds everything that was committed. With enough members in sync nobody else is needed, and who is
// no replica any more cannot lead.
func (c *change) populateELR() {
	if !c.elrOn {
		return
	}
	if len(c.isr) >= min(c.minISR, len(c.replicas)) {
		c.elr = nil
		return
	}
	var next []kafka.NodeID
	for _, ids := range [...][]kafka.NodeID{c.elr, c.ref.Partition.ISR} {
		for _, id := range ids {
			if slices.Contains(c.replicas, id) && !slices.Contains(c.isr, id) && !slices.Contains(c.lost, id) &&
				!slices.Contains(next, id) {
				next = append(next, id)
			}
		}
	}
	slices.Sort(next)
	c.elr = next
}

// elect finds the leader and says whether the election was unclean.
func (c *change) elect() (unclean bool) {
	p := c.ref.Partition
	leader, unclean := c.findLeader()
	if leader == p.Leader {
		return false
	}
	if slices.Contains(c.elr, leader) && !unclean {
		c.isr = []kafka.NodeID{leader}
		c.elr = without(c.elr, leader)
	}
	c.out.Leader = &leader
	if !unclean {
		return false
	}
	c.isr = []kafka.NodeID{leader}
	c.out.ISR = c.isr
	if !p.Recovering {
		c.recovering = true
	}
	return true
}

func (c *change) findLeader() (leader kafka.NodeID, unclean bool) {
	p := c.ref.Partition
	candidates := c.replicas
	if c.election != electPreferred || len(candidates) > 0 && !c.valid(candidates[0]) {
		candidates = slices.Concat([]kafka.NodeID{p.Leader}, candidates)
	}
	if i := slices.IndexFunc(candidates, c.valid); i >= 0 {
		return candidates[i], false
	}
	if c.lastKnownLeads() {
		return p.LastKnownELR[0], true
	}
	if c.election == electUnclean {
		if i := slices.IndexFunc(c.replicas, c.eligible); i >= 0 {
			return c.replicas[i], true
		}
	}
	return kafka.NoNode, false
}

// valid says whether a replica may lead without loss.
func (c *change) valid(id kafka.NodeID) bool {
	in := slices.Contains(c.isr, id) || len(c.isr) == 0 && slices.Contains(c.elr, id)
	return (in || flaw.In(flaw.ElectAnybody)) && c.eligible(id)
}

// lastKnownLeads says whether the last leader may take over: nobody is known to hold everything, and it held
// the most.
func (c *change) lastKnownLeads() bool {
	last := c.ref.Partition.LastKnownELR
	return c.elrOn && len(c.elr) == 0 && len(c.isr) == 0 && len(last) == 1 && slices.Contains(c.replicas, last[0]) &&
		c.eligible(last[0])
}

// bumpForReassignment makes the leader epoch rise when a replica goes, so that it is not heard any more.
func (c *change) bumpForReassignment() {
	p := c.ref.Partition
	if c.out.Leader == nil && !containsAll(c.replicas, p.Replicas) {
		c.out.Leader = &p.Leader
	}
}

func (c *change) bumpForShrink() {
	p := c.ref.Partition
	shrinks := c.out.ISR != nil && !containsAll(c.out.ISR, p.ISR)
	if c.mv < mvIsrShrinkKeepsEpoch && c.out.Leader == nil && shrinks {
		c.out.Leader = &p.Leader
	}
}

func (c *change) writeELR(unclean bool) {
	if unclean || !c.elrOn {
		c.elr = nil
	}
	if !slices.Equal(c.elr, c.ref.Partition.ELR) {
		c.out.EligibleLeaderReplicas = notNil(c.elr)
	}
}

// writeLastKnownLeader remembers the leader when the ISR becomes empty and forgets it once there is a leader
// again.
func (c *change) writeLastKnownLeader() {
	if !c.elrOn {
		return
	}
	p := c.ref.Partition
	last := p.LastKnownELR
	leads := p.HasLeader() && (c.out.Leader == nil || *c.out.Leader != kafka.NoNode) ||
		c.out.Leader != nil && *c.out.Leader != kafka.NoNode
	switch {
	case c.out.ISR != nil && len(c.out.ISR) == 0 && p.HasLeader() && (len(last) != 1 || last[0] != p.Leader):
		c.out.LastKnownELR = []kafka.NodeID{p.Leader}
	case leads && len(last) > 0:
		c.out.LastKnownELR = []kafka.NodeID{}
	}
}

func (c *change) writeAssignment() {
	p := c.ref.Partition
	if len(c.replicas) > 0 {
		if c.mv >= metadata.MVDirectories {
			if dirs := c.directories(); !slices.Equal(dirs, p.Directories) {
				c.out.Directories = dirs
			}
		}
		if !slices.Equal(c.replicas, p.Replicas) {
			c.out.Replicas = c.replicas
		}
	}
	if !slices.Equal(c.removing, p.Removing) {
		c.out.RemovingReplicas = notNil(c.removing)
	}
	if !slices.Equal(c.adding, p.Adding) {
		c.out.AddingReplicas = notNil(c.adding)
	}
}

func (c *change) directories() []kafka.UUID {
	p := c.ref.Partition
	dirs := make([]kafka.UUID, len(c.replicas))
	for i, id := range c.replicas {
		if dir, ok := c.dirs[id]; ok {
			dirs[i] = dir
		} else if at := slices.Index(p.Replicas, id); at >= 0 {
			dirs[i] = p.Directories[at]
		} else {
			dirs[i] = c.defaultDir(id)
		}
	}
	return dirs
}

func recoveryState(recovering bool) *metadata.LeaderRecoveryState {
	if recovering {
		return new(metadata.LeaderRecovering)
	}
	return new(metadata.LeaderRecovered)
}

func isNoOp(r *metadata.PartitionChangeRecord) bool {
	return r.ISR == nil && r.Leader == nil && r.Replicas == nil && r.RemovingReplicas == nil &&
		r.AddingReplicas == nil && r.LeaderRecoveryState == nil && r.Directories == nil &&
		r.EligibleLeaderReplicas == nil && r.LastKnownELR == nil
}

// notNil makes an empty list say "empty" in a record, where nil says "unchanged".
func notNil(ids []kafka.NodeID) []kafka.NodeID {
	if ids == nil {
		return []kafka.NodeID{}
	}
	return ids
}

func without(ids []kafka.NodeID, gone ...kafka.NodeID) []kafka.NodeID {
	var out []kafka.NodeID
	for _, id := range ids {
		if !slices.Contains(gone, id) {
			out = append(out, id)
		}
	}
	return out
}

func containsAll(set, ids []kafka.NodeID) bool {
	for _, id := range ids {
		if !slices.Contains(set, id) {
			return false
		}
	}
	return true
}
