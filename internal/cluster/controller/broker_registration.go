package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// registerBroker answers BrokerRegistration (KIP-631): a broker that starts gets an epoch and is fenced until
// it has caught up. The epoch is the offset of the first record of the registration.
func (t *turn) registerBroker(r *kmsg.BrokerRegistrationRequest, connected func() bool) Result {
	reply := kmsg.NewPtrBrokerRegistrationResponse()
	reply.BrokerEpoch = -1
	records, epoch, err := t.registration(r)
	if err != nil {
		reply.ErrorCode = int16(kafka.CodeOf(err))
		return Result{Reply: reply}
	}
	reply.BrokerEpoch = int64(epoch)
	life := t.Liveness.of(kafka.NodeID(r.BrokerID), epoch)
	life.lastContact, life.connected = t.now, connected
	life.registeredAt = t.NextOffset + kafka.Offset(len(records)-1)
	return Result{Records: records, Reply: reply}
}

func (t *turn) registration(r *kmsg.BrokerRegistrationRequest) ([]metadata.Record, kafka.BrokerEpoch, error) {
	id := kafka.NodeID(r.BrokerID)
	if t.Settings.ClusterID != "" && r.ClusterID != t.Settings.ClusterID {
		return nil, 0, kafka.InconsistentClusterID
	}
	dirs := uuids(r.LogDirs)
	old, known := t.Image.Broker(id)
	restart := !known || old.Incarnation != kafka.UUID(r.IncarnationID)
	if known && restart && t.hasSession(id, old.Epoch) && !t.replaceable(old, dirs) {
		return nil, 0, kafka.DuplicateBrokerRegistration
	}
	if r.IsMigratingZkBroker {
		return nil, 0, kafka.BrokerIDNotRegistered
	}
	if err := t.checkDirectories(id, dirs); err != nil {
		return nil, 0, err
	}
	features, err := t.registeredFeatures(r)
	if err != nil {
		return nil, 0, err
	}
	endpoints, err := endpointsOf(r.Listeners)
	if err != nil {
		return nil, 0, err
	}
	record := &metadata.RegisterBrokerRecord{BrokerID: id, IncarnationID: r.IncarnationID,
		Endpoints: endpoints, Features: features, Rack: r.Rack}
	if t.mv >= metadata.MVDirectories {
		record.LogDirs = dirs
	}
	var records []metadata.Record
	if restart {
		record.Fenced, record.BrokerEpoch = true, kafka.BrokerEpoch(t.NextOffset)
		clean := known && kafka.BrokerEpoch(r.PreviousBrokerEpoch) == old.Epoch
		records = t.replaced(id, clean)
	} else {
		record.BrokerEpoch, record.CordonedLogDirs = old.Epoch, old.Cordoned
		record.Fenced, record.InControlledShutdown = old.Fenced, old.InControlledShutdown
	}
	if len(dirs) > 0 {
		records = t.forgetLost(id, dirs, records)
	}
	records = append(records, record)
	if !known {
		records = append(records, t.raiseClusterMinISR()...)
	}
	return records, record.BrokerEpoch, nil
}

// replaceable says whether a new incarnation may take the place of one whose session has not ended: the same
// log directories prove that the old process is dead, for it held their locks, once its connection is closed
// as well.
func (t *turn) replaceable(old *metadata.Broker, dirs []kafka.UUID) bool {
	life := t.Liveness.of(old.ID, old.Epoch)
	if life.connected != nil && life.connected() || len(dirs) != len(old.LogDirs) {
		return false
	}
	for _, d := range dirs {
		if !slices.Contains(old.LogDirs, d) {
			return false
		}
	}
	return len(dirs) > 0
}

func (t *turn) checkDirectories(id kafka.NodeID, dirs []kafka.UUID) error {
	if t.mv < metadata.MVDirectories {
		return nil
	}
	if len(dirs) == 0 {
		return kafka.Errorf(kafka.InvalidRegistration, "no log directory is given")
	}
	seen := map[kafka.UUID]bool{}
	for _, d := range dirs {
		if d.IsReserved() {
			return kafka.Errorf(kafka.InvalidRegistration, "log directory id %s is reserved", d)
		}
		if seen[d] {
			return kafka.Errorf(kafka.InvalidRegistration, "log directory id %s stands there twice", d)
		}
		seen[d] = true
		if owner, ok := t.Image.DirectoryOwner(d); ok && owner != id {
			return kafka.Errorf(kafka.InvalidRegistration, "log directory %s belongs to broker %d", d, owner)
		}
	}
	return nil
}

// registeredFeatures checks that the broker can live with every finalized feature. Features that nobody knows
// are kept.
func (t *turn) registeredFeatures(r *kmsg.BrokerRegistrationRequest) ([]metadata.FeatureRange, error) {
	var out []metadata.FeatureRange
	for _, f := range r.Features {
		x := metadata.FeatureRange{Name: f.Name, Min: f.MinSupportedVersion, Max: f.MaxSupportedVersion}
		if level := t.Image.Feature(f.Name); level != 0 && (level < x.Min || level > x.Max) {
			return nil, kafka.Errorf(kafka.UnsupportedVersion,
				"the cluster is at level %d of %s, the broker supports %d to %d",
				level, x.Name, x.Min, x.Max)
		}
		out = append(out, x)
	}
	named := func(name string) bool {
		return slices.ContainsFunc(out, func(x metadata.FeatureRange) bool { return x.Name == name })
	}
	if !named(metadata.MetadataVersionFeature) {
		return nil, kafka.Errorf(kafka.InvalidRegistration, "metadata.version is not among the features")
	}
	for name, level := range t.Image.Features() {
		if !named(name) {
			return nil, kafka.Errorf(kafka.UnsupportedVersion,
				"the cluster is at level %d of %s, which the broker does not list",
				level, name)
		}
	}
	return out, nil
}

func endpointsOf(listeners []kmsg.BrokerRegistrationRequestListener) ([]metadata.Endpoint, error) {
	var out []metadata.Endpoint
	for _, l := range listeners {
		e := metadata.Endpoint{Name: l.Name, Host: l.Host, Port: l.Port,
			SecurityProtocol: metadata.SecurityProtocol(l.SecurityProtocol)}
		if err := checkEndpoint(e); err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func checkEndpoint(e metadata.Endpoint) error {
	if e.SecurityProtocol < metadata.Plaintext || e.SecurityProtocol > metadata.SASLSSL {
		return kafka.Errorf(kafka.InvalidRequest,
			"listener %s: unknown security protocol %d", e.Name, e.SecurityProtocol)
	}
	return nil
}

func uuids(in [][16]byte) []kafka.UUID {
	var out []kafka.UUID
	for _, u := range in {
		out = append(out, u)
	}
	return out
}
