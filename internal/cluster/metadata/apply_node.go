package metadata

import (
	"cmp"
	"fmt"
	"slices"

	"moldau/internal/kafka"
)

func (e *edit) registerBroker(r *RegisterBrokerRecord) error {
	if err := checkEndpoints(r.Endpoints); err != nil {
		return err
	}
	return e.setBroker(&Broker{
		ID: r.BrokerID, Epoch: r.BrokerEpoch, Incarnation: r.IncarnationID, Endpoints: r.Endpoints,
		Features: byName(r.Features), Rack: r.Rack, Fenced: r.Fenced, InControlledShutdown: r.InControlledShutdown,
		LogDirs: r.LogDirs, Cordoned: r.CordonedLogDirs, MigratingZk: r.IsMigratingZkBroker,
	})
}

// setBroker replaces a registration and the ownership of its log directories.
func (e *edit) setBroker(b *Broker) error {
	for _, dir := range b.LogDirs {
		if owner, ok := e.img.directories.get(string(dir[:])); ok && owner != b.ID {
			return fmt.Errorf("log directory %s belongs to broker %d", dir, owner)
		}
	}
	old, _ := e.img.brokers.get(b.ID)
	e.dropDirectories(old)
	for _, dir := range b.LogDirs {
		e.img.directories.set(e.token, string(dir[:]), b.ID)
	}
	e.img.brokers.set(e.token, b.ID, b)
	e.diff.brokers.note(b.ID, old, b)
	return nil
}

func (e *edit) dropDirectories(b *Broker) {
	if b == nil {
		return
	}
	for _, dir := range b.LogDirs {
		e.img.directories.delete(e.token, string(dir[:]))
	}
}

func (e *edit) unregisterBroker(r *UnregisterBrokerRecord) error {
	b, err := e.broker(r.BrokerID, r.BrokerEpoch)
	if err != nil {
		return err
	}
	e.dropDirectories(b)
	e.img.brokers.delete(e.token, b.ID)
	e.diff.brokers.note(b.ID, b, nil)
	return nil
}

// broker finds a registration that a record refers to. Id and epoch must both be right.
func (e *edit) broker(id kafka.NodeID, epoch kafka.BrokerEpoch) (*Broker, error) {
	b, ok := e.img.brokers.get(id)
	if !ok {
		return nil, fmt.Errorf("broker %d is not registered", id)
	}
	if b.Epoch != epoch {
		return nil, fmt.Errorf("broker %d has epoch %d, not %d", id, b.Epoch, epoch)
	}
	return b, nil
}

func (e *edit) changeBroker(r *BrokerRegistrationChangeRecord) error {
	old, err := e.broker(r.BrokerID, r.BrokerEpoch)
	if err != nil {
		return err
	}
	b := *old
	switch r.Fenced {
	case FenceUnchanged:
	case Fence:
		b.Fenced = true
	case Unfence:
		b.Fenced = false
	default:
		return fmt.Errorf("unknown change of the fence: %d", r.Fenced)
	}
	if r.InControlledShutdown {
		b.InControlledShutdown = true
	}
	if len(r.LogDirs) > 0 {
		b.LogDirs = r.LogDirs
	}
	if r.CordonedLogDirs != nil {
		b.Cordoned = r.CordonedLogDirs
	}
	return e.setBroker(&b)
}

func (e *edit) registerController(r *RegisterControllerRecord) error {
	if err := checkEndpoints(r.Endpoints); err != nil {
		return err
	}
	old, _ := e.img.controllers.get(r.ControllerID)
	c := &Controller{
		ID: r.ControllerID, Incarnation: r.IncarnationID, ZkMigrationReady: r.ZkMigrationReady,
		Endpoints: r.Endpoints, Features: byName(r.Features),
	}
	e.img.controllers.set(e.token, c.ID, c)
	e.diff.controllers.note(c.ID, old, c)
	return nil
}

func (e *edit) unregisterController(r *UnregisterControllerRecord) error {
	old, ok := e.img.controllers.get(r.ControllerID)
	if !ok {
		return fmt.Errorf("controller %d is not registered", r.ControllerID)
	}
	e.img.controllers.delete(e.token, old.ID)
	e.diff.controllers.note(old.ID, old, nil)
	return nil
}

func checkEndpoints(all []Endpoint) error {
	for _, ep := range all {
		if ep.SecurityProtocol < Plaintext || ep.SecurityProtocol > SASLSSL {
			return fmt.Errorf("listener %s: unknown security protocol %d", ep.Name, ep.SecurityProtocol)
		}
	}
	return nil
}

// byName sorts feature ranges in a copy: nodes send them in the order of a hash map, and images with the same meaning
// should give the same snapshot.
func byName(ranges []FeatureRange) []FeatureRange {
	copied := slices.Clone(ranges)
	slices.SortStableFunc(copied, func(a, b FeatureRange) int { return cmp.Compare(a.Name, b.Name) })
	return copied
}
