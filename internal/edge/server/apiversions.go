package server

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// VersionInfo is what ApiVersions tells beside the table. Any of its functions may be nil; they are called
// for each request and must not block.
type VersionInfo struct {
	// Features gives the supported and finalized features of the moment.
	Features func() Features
	// ClusterID and NodeID let version 5 find out that a client reached another cluster or node than it meant
	// (KIP-1242).
	ClusterID func() string
	NodeID    func() kafka.NodeID
}

// Features are the feature levels a node supports and its cluster has finalized (KIP-584).
type Features struct {
	Supported []FeatureRange
	Finalized []FinalizedFeature
	// Epoch is the metadata offset of the finalized levels, -1 if unknown.
	Epoch int64
}

// FeatureRange is a range of levels of one feature.
type FeatureRange struct {
	Name     string
	Min, Max int16
}

// FinalizedFeature is the level of one feature that the cluster has agreed on.
type FinalizedFeature struct {
	Name  string
	Level int16
}

const (
	apiVersionsKey = int16(kmsg.ApiVersions)
	apiVersionsMax = 5
)

func (v VersionInfo) row(t *Table) API {
	return API{
		Key: apiVersionsKey, Max: apiVersionsMax, Listener: BothListeners,
		Handle: func(c *Call, r kmsg.Request) *promise.Promise[Reply] {
			resp := v.answer(t, c, r.(*kmsg.ApiVersionsRequest))
			return promise.Done(Reply{Body: resp, Code: kafka.Code(resp.ErrorCode)})
		},
	}
}

func (v VersionInfo) answer(t *Table, c *Call, r *kmsg.ApiVersionsRequest) *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	if c.Version >= 3 {
		if !softwareNameOK(r.ClientSoftwareName) || !softwareNameOK(r.ClientSoftwareVersion) {
			resp.ErrorCode = int16(kafka.InvalidRequest)
			return resp
		}
		c.Conn.SetSoftware(Software{
			Name: strings.Clone(r.ClientSoftwareName), Version: strings.Clone(r.ClientSoftwareVersion),
		})
	}
	if c.Version >= 5 {
		if code := v.routing(r); code != kafka.None {
			resp.ErrorCode = int16(code)
			return resp
		}
	}
	resp.ApiKeys = t.keys[c.Conn.Kind]
	if v.Features != nil {
		addFeatures(resp, v.Features(), c.Version)
	}
	return resp
}

// routing checks whom the client believes to talk to (KIP-1242). It names both the cluster and the node, or
// neither.
func (v VersionInfo) routing(r *kmsg.ApiVersionsRequest) kafka.Code {
	unnamed := kafka.NodeID(r.NodeID) == kafka.NoNode
	switch {
	case (r.ClusterID == nil) != unnamed:
		return kafka.InvalidRequest
	case unnamed:
		return kafka.None
	case v.ClusterID != nil && *r.ClusterID != v.ClusterID():
		return kafka.RebootstrapRequired
	case v.NodeID != nil && kafka.NodeID(r.NodeID) != v.NodeID():
		return kafka.RebootstrapRequired
	}
	return kafka.None
}

// addFeatures lists the features. Up to version 3 a supported range that starts at 0 is left out: older
// clients refuse it (KAFKA-17011).
func addFeatures(resp *kmsg.ApiVersionsResponse, f Features, version int16) {
	resp.FinalizedFeaturesEpoch = f.Epoch
	for _, s := range f.Supported {
		if version <= 3 && s.Min == 0 {
			continue
		}
		k := kmsg.NewApiVersionsResponseSupportedFeature()
		k.Name, k.MinVersion, k.MaxVersion = s.Name, s.Min, s.Max
		resp.SupportedFeatures = append(resp.SupportedFeatures, k)
	}
	for _, s := range f.Finalized {
		k := kmsg.NewApiVersionsResponseFinalizedFeature()
		k.Name, k.MinVersionLevel, k.MaxVersionLevel = s.Name, s.Level, s.Level
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, k)
	}
}

// unsupportedVersions answers an ApiVersions request of a version we do not know: encoded as version 0, with
// the range of ApiVersions alone, so that the client can choose again (KIP-511).
func unsupportedVersions() *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = int16(kafka.UnsupportedVersion)
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MaxVersion = apiVersionsKey, apiVersionsMax
	resp.ApiKeys = append(resp.ApiKeys, k)
	return resp
}

// softwareNameOK checks a client's name or version against Kafka's pattern: letters and digits, with '-' and
// '.' inside.
func softwareNameOK(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		b := s[i]
		switch {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9':
		case (b == '-' || b == '.') && i > 0 && i < len(s)-1:
		default:
			return false
		}
	}
	return true
}
