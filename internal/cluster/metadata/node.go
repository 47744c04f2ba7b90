package metadata

import (
	"slices"

	"moldau/internal/kafka"
)

// Broker is the registration of a broker.
type Broker struct {
	ID                   kafka.NodeID
	Epoch                kafka.BrokerEpoch
	Incarnation          kafka.UUID
	Endpoints            []Endpoint
	Features             []FeatureRange // sorted by name
	Rack                 *string
	Fenced               bool
	InControlledShutdown bool
	LogDirs              []kafka.UUID // online ones; empty below metadata.version 17
	Cordoned             []kafka.UUID // nil: never told (below metadata.version 30)
	MigratingZk          bool         // left over from a migration from ZooKeeper
}

// Active says whether the broker may lead partitions and join in-sync replicas.
func (b *Broker) Active() bool { return !b.Fenced && !b.InControlledShutdown }

// Endpoint finds a listener by name.
func (b *Broker) Endpoint(listener string) (Endpoint, bool) {
	return findEndpoint(b.Endpoints, listener)
}

// Feature gives the range of levels of a feature that the broker supports: 0 to 0 for one it did not list.
func (b *Broker) Feature(name string) FeatureRange { return findRange(b.Features, name) }

// DirectoryOnline says whether a replica recorded in a log directory can be served (KIP-858): not from one that was
// lost, nor from one that the broker did not register; directories that are not known yet count as online, and so does
// every one of a broker that registered none.
func (b *Broker) DirectoryOnline(dir kafka.UUID) bool {
	switch dir {
	case kafka.DirectoryLost:
		return false
	case kafka.DirectoryMigrating, kafka.DirectoryUnassigned:
		return true
	}
	return len(b.LogDirs) == 0 || slices.Contains(b.LogDirs, dir)
}

// Controller is the registration of a controller (KIP-919).
type Controller struct {
	ID               kafka.NodeID
	Incarnation      kafka.UUID
	ZkMigrationReady bool
	Endpoints        []Endpoint
	Features         []FeatureRange
}

// Endpoint finds a listener by name.
func (c *Controller) Endpoint(listener string) (Endpoint, bool) {
	return findEndpoint(c.Endpoints, listener)
}

// Feature gives the range of levels of a feature that the controller supports: 0 to 0 for one it did not list.
func (c *Controller) Feature(name string) FeatureRange { return findRange(c.Features, name) }

func findEndpoint(all []Endpoint, listener string) (Endpoint, bool) {
	i := slices.IndexFunc(all, func(e Endpoint) bool { return e.Name == listener })
	if i < 0 {
		return Endpoint{}, false
	}
	return all[i], true
}

func findRange(all []FeatureRange, name string) FeatureRange {
	i := slices.IndexFunc(all, func(f FeatureRange) bool { return f.Name == name })
	if i < 0 {
		return FeatureRange{Name: name}
	}
	return all[i]
}
