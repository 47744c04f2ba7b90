package controller

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// The upgrade types of UpdateFeatures (KIP-778).
const (
	upgrade         = 1
	safeDowngrade   = 2
	unsafeDowngrade = 3
)

// updateFeatures answers UpdateFeatures (KIP-584, KIP-778): all features change or none.
func (t *turn) updateFeatures(r *kmsg.UpdateFeaturesRequest) Result {
	reply := kmsg.NewPtrUpdateFeaturesResponse()
	u := &featureUpdater{turn: t, proposed: map[string]int16{}}
	for name, level := range t.Image.Features() {
		u.proposed[name] = level
	}
	for _, f := range r.FeatureUpdates {
		u.proposed[f.Feature] = f.MaxVersionLevel
	}
	for i, f := range r.FeatureUpdates {
		err := u.update(f, upgradeType(r.Version, f))
		for _, other := range r.FeatureUpdates[:i] {
			if other.Feature == f.Feature {
				err = kafka.Errorf(kafka.InvalidRequest, "%s stands there twice", f.Feature)
			}
		}
		if err != nil {
			reply.ErrorCode, reply.ErrorMessage = int16(kafka.CodeOf(err)), messageOf(err)
			return Result{Reply: reply}
		}
	}
	if r.Version < 2 {
		for _, f := range r.FeatureUpdates {
			x := kmsg.NewUpdateFeaturesResponseResult()
			x.Feature, x.ErrorMessage = f.Feature, new("")
			reply.Results = append(reply.Results, x)
		}
	}
	if r.ValidateOnly {
		return Result{Reply: reply}
	}
	return Result{Records: append(u.first, u.records...), Atomic: true, Reply: reply}
}

// upgradeType is what an update may do. Version 0 has a flag instead.
func upgradeType(version int16, f kmsg.UpdateFeaturesRequestFeatureUpdate) int8 {
	switch {
	case version > 0:
		return f.UpgradeType
	case f.AllowDowngrade:
		return safeDowngrade
	}
	return upgrade
}

// featureUpdater collects the outcome of one UpdateFeatures.
type featureUpdater struct {
	*turn
	proposed       map[string]int16 // every level as it would be
	first, records []metadata.Record
}

func refusedLevel(f kmsg.UpdateFeaturesRequestFeatureUpdate, why string) error {
	return kafka.Errorf(kafka.InvalidUpdateVersion,
		"%s cannot become %d: %s", f.Feature, f.MaxVersionLevel, why)
}

func (u *featureUpdater) update(f kmsg.UpdateFeaturesRequestFeatureUpdate, kind int8) error {
	level, now := f.MaxVersionLevel, u.level(f.Feature)
	switch {
	case kind < upgrade || kind > unsafeDowngrade:
		return refusedLevel(f, "unknown upgrade type")
	case level < 0:
		return refusedLevel(f, "a level is not negative")
	}
	if why := u.unsupported(f.Feature, level); why != "" {
		return refusedLevel(f, why)
	}
	switch {
	case level < now && kind == upgrade:
		return refusedLevel(f, "a lower level needs an upgrade type that allows a downgrade")
	case level > now && kind != upgrade:
		return refusedLevel(f, "a higher level is no downgrade")
	}
	switch f.Feature {
	case metadata.KRaftVersionFeature:
		if level < now {
			return refusedLevel(f, "it can only rise")
		}
		u.records = append(u.records, &metadata.NoOpRecord{}) // the level lives in the quorum's own records
		return nil
	case metadata.MetadataVersionFeature:
		if level < now && metadata.MetadataFormatChanged(level, now) {
			return refusedLevel(f, "metadata would be lost")
		}
	default:
		if why := u.unmet(f.Feature, level); why != "" {
			return refusedLevel(f, why)
		}
	}
	if f.Feature == metadata.ElrVersionFeature && level > 0 && now == 0 {
		u.first = u.elrConfigs()
	}
	u.records = append(u.records, &metadata.FeatureLevelRecord{Name: f.Feature, Level: level})
	return nil
}

// level is the finalized level of a feature.
func (t *turn) level(feature string) int16 {
	if feature == metadata.KRaftVersionFeature {
		return t.Settings.KRaftVersion
	}
	return t.Image.Feature(feature)
}

// unsupported says which node does not know a level; "" for none.
func (t *turn) unsupported(feature string, level int16) string {
	known, ok := metadata.LookupFeature(feature)
	if !ok || level != 0 && (level < known.Min || level > known.Max) || level < known.Min {
		return "this controller does not support it"
	}
	outside := func(r metadata.FeatureRange) bool { return level != 0 && (level < r.Min || level > r.Max) }
	for c := range t.Image.Controllers() {
		if c.ID != t.Settings.Node && outside(c.Feature(feature)) {
			return "controller " + strconv.Itoa(int(c.ID)) + " does not support it"
		}
	}
	for b := range t.Image.Brokers() {
		if outside(b.Feature(feature)) {
			return "broker " + strconv.Itoa(int(b.ID)) + " does not support it"
		}
	}
	return ""
}

// unmet says which level of another feature a level needs; "" for none.
func (u *featureUpdater) unmet(feature string, level int16) string {
	known, _ := metadata.LookupFeature(feature)
	if level == 0 {
		return ""
	}
	for _, need := range known.Needs {
		if u.proposed[need.Name] < need.Level {
			return need.Name + " must be at least " + strconv.Itoa(int(need.Level))
		}
	}
	return ""
}

// elrConfigs prepares min.insync.replicas for eligible leader replicas (KIP-966): one value for the cluster,
// in the metadata, and none for single brokers.
func (t *turn) elrConfigs() []metadata.Record {
	var out []metadata.Record
	if _, ok := t.Image.Config(metadata.BrokerResource, "").Get(minISRKey); !ok {
		out = append(out, t.Settings.minISRConfig())
	}
	for c := range t.Image.Configs() {
		if c.Resource.Type != metadata.BrokerResource || c.Resource.Name == "" {
			continue
		}
		if _, ok := c.Get(minISRKey); ok {
			out = append(out, &metadata.ConfigRecord{ResourceType: metadata.BrokerResource,
				ResourceName: c.Resource.Name, Name: minISRKey})
		}
	}
	return out
}
