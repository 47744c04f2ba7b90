package metadata

import "moldau/internal/kafka"

// Endpoint is one listener of a broker or controller as others reach it.
type Endpoint struct {
	Name             string
	Host             string
	Port             uint16
	SecurityProtocol SecurityProtocol
}

// SecurityProtocol is what is spoken on a listener.
type SecurityProtocol int16

// Kafka's security protocols.
const (
	Plaintext     SecurityProtocol = 0
	SSL           SecurityProtocol = 1
	SASLPlaintext SecurityProtocol = 2
	SASLSSL       SecurityProtocol = 3
)

// FeatureRange is the range of levels of one feature that a node supports. A feature that is not listed has 0 to 0.
type FeatureRange struct {
	Name string
	Min  int16
	Max  int16
}

func endpoints(v visitor, name string, p *[]Endpoint) {
	list(v, name, 7, p, func(e *Endpoint) {
		v.begin()
		text(v, "name", &e.Name)
		text(v, "host", &e.Host)
		port := v.integer("port", widthU16, int64(e.Port))
		if v.reads() {
			e.Port = uint16(port)
		}
		number(v, "securityProtocol", &e.SecurityProtocol)
		v.end()
	})
}

func featureRanges(v visitor, name string, p *[]FeatureRange) {
	list(v, name, 6, p, func(f *FeatureRange) {
		v.begin()
		text(v, "name", &f.Name)
		number(v, "minSupportedVersion", &f.Min)
		number(v, "maxSupportedVersion", &f.Max)
		v.end()
	})
}

// RegisterBrokerRecord registers a broker or replaces its registration. InControlledShutdown exists from version 1
// on, IsMigratingZkBroker from 2, LogDirs from 3 (KIP-858), CordonedLogDirs from 4 (KIP-1066; nil means never told).
type RegisterBrokerRecord struct {
	BrokerID             kafka.NodeID
	IsMigratingZkBroker  bool
	IncarnationID        kafka.UUID
	BrokerEpoch          kafka.BrokerEpoch
	Endpoints            []Endpoint
	Features             []FeatureRange
	Rack                 *string
	Fenced               bool
	InControlledShutdown bool
	LogDirs              []kafka.UUID
	CordonedLogDirs      []kafka.UUID
}

// Type is TypeRegisterBroker.
func (*RegisterBrokerRecord) Type() RecordType { return TypeRegisterBroker }

func (r *RegisterBrokerRecord) fields(v visitor, version int16) {
	number(v, "brokerId", &r.BrokerID)
	if version >= 2 { // second on the wire, though the youngest of the untagged fields
		boolean(v, "isMigratingZkBroker", &r.IsMigratingZkBroker)
	}
	uuid(v, "incarnationId", &r.IncarnationID)
	number(v, "brokerEpoch", &r.BrokerEpoch)
	endpoints(v, "endPoints", &r.Endpoints)
	featureRanges(v, "features", &r.Features)
	nullableText(v, "rack", &r.Rack)
	boolean(v, "fenced", &r.Fenced)
	if version >= 1 {
		boolean(v, "inControlledShutdown", &r.InControlledShutdown)
	}
	v.tagged(0, 3, len(r.LogDirs) > 0, func() { uuids(v, "logDirs", &r.LogDirs) })
	v.tagged(1, 4, r.CordonedLogDirs != nil, func() { nullableUUIDs(v, "cordonedLogDirs", &r.CordonedLogDirs) })
}

// UnregisterBrokerRecord forgets a broker.
type UnregisterBrokerRecord struct {
	BrokerID    kafka.NodeID
	BrokerEpoch kafka.BrokerEpoch
}

// Type is TypeUnregisterBroker.
func (*UnregisterBrokerRecord) Type() RecordType { return TypeUnregisterBroker }

func (r *UnregisterBrokerRecord) fields(v visitor, _ int16) {
	number(v, "brokerId", &r.BrokerID)
	number(v, "brokerEpoch", &r.BrokerEpoch)
}

// FenceBrokerRecord is not written any more (BrokerRegistrationChangeRecord is), but old logs hold it.
type FenceBrokerRecord struct {
	ID    kafka.NodeID
	Epoch kafka.BrokerEpoch
}

// Type is TypeFenceBroker.
func (*FenceBrokerRecord) Type() RecordType { return TypeFenceBroker }

func (r *FenceBrokerRecord) fields(v visitor, _ int16) {
	number(v, "id", &r.ID)
	number(v, "epoch", &r.Epoch)
}

// UnfenceBrokerRecord is not written any more (BrokerRegistrationChangeRecord is), but old logs hold it.
type UnfenceBrokerRecord struct {
	ID    kafka.NodeID
	Epoch kafka.BrokerEpoch
}

// Type is TypeUnfenceBroker.
func (*UnfenceBrokerRecord) Type() RecordType { return TypeUnfenceBroker }

func (r *UnfenceBrokerRecord) fields(v visitor, _ int16) {
	number(v, "id", &r.ID)
	number(v, "epoch", &r.Epoch)
}

// FenceChange is the tri-state of BrokerRegistrationChangeRecord.Fenced.
type FenceChange int8

// What a BrokerRegistrationChangeRecord does to the fence.
const (
	FenceUnchanged FenceChange = 0
	Fence          FenceChange = 1
	Unfence        FenceChange = -1
)

// BrokerRegistrationChangeRecord changes some fields of a registration. Zero values mean unchanged. Controlled
// shutdown can only be entered (version 1); LogDirs, when not empty, is the new list of online directories
// (version 2); CordonedLogDirs, when not nil, the new list of cordoned ones (version 3).
type BrokerRegistrationChangeRecord struct {
	BrokerID             kafka.NodeID
	BrokerEpoch          kafka.BrokerEpoch
	Fenced               FenceChange
	InControlledShutdown bool
	LogDirs              []kafka.UUID
	CordonedLogDirs      []kafka.UUID
}

// Type is TypeBrokerRegistrationChange.
func (*BrokerRegistrationChangeRecord) Type() RecordType { return TypeBrokerRegistrationChange }

func (r *BrokerRegistrationChangeRecord) fields(v visitor, _ int16) {
	number(v, "brokerId", &r.BrokerID)
	number(v, "brokerEpoch", &r.BrokerEpoch)
	v.tagged(0, 0, r.Fenced != FenceUnchanged, func() { number(v, "fenced", &r.Fenced) })
	v.tagged(1, 1, r.InControlledShutdown, func() { byteFlag(v, "inControlledShutdown", &r.InControlledShutdown) })
	v.tagged(2, 2, len(r.LogDirs) > 0, func() { uuids(v, "logDirs", &r.LogDirs) })
	v.tagged(3, 3, r.CordonedLogDirs != nil, func() { nullableUUIDs(v, "cordonedLogDirs", &r.CordonedLogDirs) })
}

// RegisterControllerRecord registers a controller or replaces its registration (KIP-919).
type RegisterControllerRecord struct {
	ControllerID     kafka.NodeID
	IncarnationID    kafka.UUID
	ZkMigrationReady bool
	Endpoints        []Endpoint
	Features         []FeatureRange
}

// Type is TypeRegisterController.
func (*RegisterControllerRecord) Type() RecordType { return TypeRegisterController }

func (r *RegisterControllerRecord) fields(v visitor, _ int16) {
	number(v, "controllerId", &r.ControllerID)
	uuid(v, "incarnationId", &r.IncarnationID)
	boolean(v, "zkMigrationReady", &r.ZkMigrationReady)
	endpoints(v, "endPoints", &r.Endpoints)
	featureRanges(v, "features", &r.Features)
}

// UnregisterControllerRecord forgets a controller.
type UnregisterControllerRecord struct {
	ControllerID kafka.NodeID
}

// Type is TypeUnregisterController.
func (*UnregisterControllerRecord) Type() RecordType { return TypeUnregisterController }

func (r *UnregisterControllerRecord) fields(v visitor, _ int16) {
	number(v, "controllerId", &r.ControllerID)
}
