package peer

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// versions are the APIs that a peer has, by key.
type versions map[int16]versionRange

type versionRange struct{ min, max int16 }

// settle brings a request to a version that the peer knows; an error if there is none.
func (v versions) settle(r kmsg.Request) error {
	key, lowest := r.Key(), int16(0)
	if f, ok := r.(Floor); ok {
		lowest = f.LowestVersion()
	}
	has, ok := v[key]
	if !ok {
		return fmt.Errorf("the peer has no %s", kmsg.NameForKey(key))
	}
	version := min(r.GetVersion(), has.max)
	if version < max(has.min, lowest) {
		return fmt.Errorf("the peer has %s v%d to v%d, v%d to v%d is needed", kmsg.NameForKey(key), has.min, has.max,
			lowest, r.GetVersion())
	}
	if version != r.GetVersion() {
		r.SetVersion(version)
	}
	return nil
}

// askedVersion of ApiVersions: Kafka 3.8 and newer know it. A peer that does not says so in version 0.
const askedVersion = 4

// ask exchanges versions with the peer. It is the first on a connection, before anything else reads or writes.
func (c *conn) ask() (versions, error) {
	resp, err := c.askAt(askedVersion)
	if err == nil && kafka.Code(resp.ErrorCode) == kafka.UnsupportedVersion {
		resp, err = c.askAt(0)
	}
	if err != nil {
		return nil, fmt.Errorf("asking for versions: %w", err)
	}
	if code := kafka.Code(resp.ErrorCode); code != kafka.None {
		return nil, fmt.Errorf("asking for versions: %w", code)
	}
	v := make(versions, len(resp.ApiKeys))
	for _, k := range resp.ApiKeys {
		v[k.ApiKey] = versionRange{k.MinVersion, k.MaxVersion}
	}
	return v, nil
}

func (c *conn) askAt(version int16) (*kmsg.ApiVersionsResponse, error) {
	r := kmsg.NewPtrApiVersionsRequest()
	r.Version, r.ClientSoftwareName, r.ClientSoftwareVersion = version, "moldau", "1"
	id := c.next
	c.out = c.out[:0]
	c.append(r)
	if _, err := c.nc.Write(c.out); err != nil {
		return nil, err
	}
	frame, err := c.frames.read(c.in, c.maxFrame)
	if err != nil {
		return nil, err
	}
	resp := kmsg.NewPtrApiVersionsResponse()
	if len(frame) < 6 || kafka.Code(int16(frame[4])<<8|int16(frame[5])) != kafka.UnsupportedVersion {
		resp.Version = version
	}
	return resp, decode(frame, id, resp, false)
}
