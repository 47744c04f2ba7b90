package replica

import (
	"testing"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// TestLostReplicaIsGivenUpWhileOthersAreInSync: a replica whose recovery found less than was once durable must not be
// elected while another one has everything; the only one serves what it has.
func TestLostReplicaIsGivenUpWhileOthersAreInSync(t *testing.T) {
	for name, c := range map[string]struct {
		isr, elr []kafka.NodeID
		lost     bool
		broken   bool
		want     kafka.UUID // the directory that is reported
		kept     bool
	}{
		"alone":                     {isr: []kafka.NodeID{1}, lost: true, want: openedDirectory, kept: true},
		"another in the ISR":        {isr: []kafka.NodeID{1, 2}, lost: true, want: kafka.DirectoryLost},
		"another in the ELR":        {elr: []kafka.NodeID{1, 2}, lost: true, want: kafka.DirectoryLost},
		"broken, another in sync":   {isr: []kafka.NodeID{1, 2}, broken: true, want: kafka.DirectoryLost},
		"broken and alone":          {isr: []kafka.NodeID{1}, broken: true},
		"whole, and another's turn": {isr: []kafka.NodeID{1, 2}, want: openedDirectory},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			if err := h.Adopt(h.create(t, h.dirs[0])); err != nil {
				t.Fatal(err)
			}
			if c.lost {
				h.Lost(orders)
			}
			if c.broken {
				h.Broken(orders)
			}
			var out Applied
			h.Manager.ensure(t0, metadata.New(), &metadata.Topic{Name: orders.Topic, ID: topic}, 0, &metadata.Partition{
				Replicas: []kafka.NodeID{1, 2}, ISR: c.isr, ELR: c.elr, Leader: 2, Directories: make([]kafka.UUID, 2)}, h.desk, &out)
			if got := len(out.Kept) > 0; got != c.kept {
				t.Errorf("kept: %t", got)
			}
			if len(out.Directories) == 0 {
				if c.want != (kafka.UUID{}) {
					t.Fatal("nothing is reported")
				}
				return
			}
			if got := out.Directories[0]; got.Directory != c.want || got.TopicID != topic {
				t.Errorf("reported %+v", got)
			}
		})
	}
}

// openedDirectory is the id of the rig's directories.
var openedDirectory = kafka.UUID{0: 9, 15: 255}

// TestFailedCreationIsJudged: a directory in which no log can be made for an I/O error is a failed one, and one without
// descriptors is not.
func TestFailedCreationIsJudged(t *testing.T) {
	for rule, offline := range map[string]bool{
		"mkdir orders-0 1 error EIO":      true,
		"create *.log 1 error EIO":        true,
		"create *.log 1 error EMFILE":     false,
		"mkdir orders-0 1 error ENOSPC":   false,
		"create *.metadata 1 error EROFS": true,
	} {
		t.Run(rule, func(t *testing.T) {
			h := newHouse(t)
			fs, err := vfs.Faulty(vfs.NewMem(vfs.MemOptions{}), rule)
			if err != nil {
				t.Fatal(err)
			}
			h.dirs[0] = openDir(t, fs)
			h.o.Dirs = h.dirs[:1]
			p, out := h.ensure(t)
			if p.Role() != Offline || len(out.Failed) != 1 {
				t.Fatalf("role %s, failures %v", p.Role(), out.Failed)
			}
			if got := len(h.desk.failed) == 1; got != offline || h.Unmade() == offline {
				t.Errorf("the directory is offline: %t; another try is due: %t", got, h.Unmade())
			}
		})
	}
}
