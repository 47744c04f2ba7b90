package controller

import (
	"slices"
	"strconv"
	"time"

	"moldau/internal/cluster/metadata"
)

// bootstrapName is the name Kafka gives to the metadata transaction that founds a cluster.
const bootstrapName = "Bootstrap records"

// failoverReason is why a new controller takes an open transaction back, in Kafka's words.
const failoverReason = "Controller failover"

// Activate is the first event of a term. On a log without a metadata.version it founds the cluster with the
// bootstrap records, in a metadata transaction where that exists; a transaction that the last controller left
// open is taken back. Brokers that the image shows unfenced get a whole session from now on.
func Activate(now time.Time, s State, bootstrap []metadata.Record) Result {
	for b := range s.Image.Brokers() {
		life := s.Liveness.of(b.ID, b.Epoch)
		if !b.Fenced {
			life.lastContact = now
		}
	}
	s.Liveness.schedule(now, s.Settings)
	var out Result
	if _, open := s.Image.Transaction(); open {
		out.Records = append(out.Records, &metadata.AbortTransactionRecord{Reason: new(failoverReason)})
	}
	if s.Image.MetadataVersion() > 0 {
		return out
	}
	if len(bootstrap) == 0 {
		bootstrap = []metadata.Record{&metadata.FeatureLevelRecord{Name: metadata.MetadataVersionFeature,
			Level: metadata.LatestMetadataVersion}}
	}
	founding := append(bootstrap[:len(bootstrap):len(bootstrap)], foundingConfig(s.Settings, bootstrap)...)
	if bootstrapLevel(bootstrap, metadata.MetadataVersionFeature) < metadata.MVTransactions {
		out.Records, out.Atomic = append(out.Records, founding...), true
		return out
	}
	out.Records = append(out.Records, &metadata.BeginTransactionRecord{Name: new(bootstrapName)})
	out.Records = append(out.Records, founding...)
	out.Records = append(out.Records, &metadata.EndTransactionRecord{})
	return out
}

// foundingConfig writes min.insync.replicas down for the whole cluster when eligible leader replicas are on,
// so that it no longer depends on who is controller (KIP-966), unless the founders have agreed on a value.
func foundingConfig(s *Settings, bootstrap []metadata.Record) []metadata.Record {
	given := func(r metadata.Record) bool {
		c, ok := r.(*metadata.ConfigRecord)
		return ok && c.ResourceType == metadata.BrokerResource && c.ResourceName == "" && c.Name == minISRKey
	}
	if bootstrapLevel(bootstrap, metadata.ElrVersionFeature) < 1 || slices.ContainsFunc(bootstrap, given) {
		return nil
	}
	return []metadata.Record{s.minISRConfig()}
}

// minISRConfig is the record that sets the cluster's min.insync.replicas to the static value of this
// controller.
func (s *Settings) minISRConfig() metadata.Record {
	value := strconv.FormatInt(s.Static.Int64(minISRKey), 10)
	return &metadata.ConfigRecord{ResourceType: metadata.BrokerResource, Name: minISRKey, Value: &value}
}

const minISRKey = "min.insync.replicas"

func bootstrapLevel(records []metadata.Record, feature string) int16 {
	for _, r := range records {
		if f, ok := r.(*metadata.FeatureLevelRecord); ok && f.Name == feature {
			return f.Level
		}
	}
	return 0
}

// schedule sets when the periodic work of a term is due for the first time.
func (l *Liveness) schedule(now time.Time, s *Settings) {
	l.nextFence = now.Add(s.fenceInterval())
	l.nextNoOp = now.Add(s.MaxIdle)
	l.nextPreferred = now.Add(s.PreferredElection)
	l.nextUnclean = now.Add(s.UncleanElection)
}

// fenceInterval is how often one stale broker is looked for: one a time, so that a pause of the controller
// does not fence a whole cluster before the heartbeats that wait are read.
func (s *Settings) fenceInterval() time.Duration { return s.BrokerSession / 8 }
