package quorum_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/quorum"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

// A cluster of one: founded, started and driven by a loop that does in turn what a real driver does side by
// side (its flusher runs the work, its timer ticks at the deadline, its network carries the messages).
func Example() {
	fsys, now := vfs.NewMem(vfs.MemOptions{}), time.UnixMilli(1_800_000_000_000)
	self := quorum.ReplicaKey{ID: 1, Directory: kafka.UUID{15: 200}}
	listener := []quorum.Endpoint{{Name: "CONTROLLER", Host: "localhost", Port: 10092}}
	must(fsys.MkdirAll("data"))
	must(quorum.Format(fsys, "data", quorum.FormatOptions{Voters: quorum.Standalone(self, listener),
		MetadataVersion: 33, Features: []metadata.FeatureLevel{{Name: "group.version", Level: 1}}, Now: now}))
	must(log.FormatDir(fsys, "data", log.MetaProperties{ClusterID: "c", NodeID: 1, DirectoryID: self.Directory}))

	dir, err := log.OpenDir(fsys, "data", log.MetaProperties{ClusterID: "c", NodeID: 1})
	must(err)
	pump, err := quorum.Open(dir, quorum.Config{ClusterID: "c", Self: self, CanVote: true, Endpoints: listener}, now,
		rand.New(rand.NewPCG(1, 2)))
	must(err)
	pump.Start(now)

	image := metadata.New()
	for activated := false; ; {
		work, more := pump.Work()
		if more {
			pump.Completed(now, work, work.Run())
		}
		for delivery, ok := pump.Next(); ok; delivery, ok = pump.Next() {
			records, err := delivery.Batch.Records()
			must(err)
			image, _, err = image.Apply(records)
			must(err)
			fmt.Printf("offsets %d to %d of epoch %d, %d records\n", delivery.Batch.Base, delivery.Batch.Last,
				delivery.Batch.Epoch, len(records))
		}
		must(pump.Err())
		epoch, office := pump.InOffice()
		switch {
		case office && !activated:
			activated = true
			records, err := pump.Bootstrap()
			must(err)
			last, err := pump.Propose(now, quorum.Proposal{Epoch: epoch, Records: records, MetadataVersion: 33, Atomic: true})
			must(err)
			fmt.Printf("in office in epoch %d, proposed up to %d\n", epoch, last)
		case !more:
			fmt.Println("metadata.version", image.MetadataVersion())
			must(pump.Close(now))
			must(dir.Close(true, log.NoBrokerEpoch))
			return
		}
	}
	// Output:
	// offsets 0 to 2 of epoch 1, 0 records
	// in office in epoch 1, proposed up to 4
	// offsets 3 to 4 of epoch 1, 2 records
	// metadata.version 33
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
