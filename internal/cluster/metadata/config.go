package metadata

import (
	"cmp"
	"encoding/binary"
	"iter"
	"slices"
)

// ConfigResource names a thing that has configs.
type ConfigResource struct {
	Type ResourceType
	Name string
}

// Configs is what was set for one resource, and nothing inherited or defaulted.
type Configs struct {
	Resource ConfigResource

	values tree[string, string]
}

// Get gives the value of a key.
func (c *Configs) Get(key string) (string, bool) { return c.values.get(key) }

// All goes through keys and values by key.
func (c *Configs) All() iter.Seq2[string, string] { return c.values.all() }

// Len is the number of keys.
func (c *Configs) Len() int { return c.values.len() }

// resourceKey packs a resource so that keys sort by type and name.
func resourceKey(t ResourceType, name string) string { return string([]byte{byte(t)}) + name }

// Quota is the client quotas of one entity.
type Quota struct {
	Entity []QuotaEntityPart // sorted by type

	values tree[string, float64]
}

// Get gives the quota of a key, such as producer_byte_rate.
func (q *Quota) Get(key string) (float64, bool) { return q.values.get(key) }

// All goes through keys and values by key.
func (q *Quota) All() iter.Seq2[string, float64] { return q.values.all() }

// canonicalEntity sorts the parts of an entity by type, in a copy.
func canonicalEntity(entity []QuotaEntityPart) []QuotaEntityPart {
	sorted := slices.Clone(entity)
	slices.SortStableFunc(sorted, func(a, b QuotaEntityPart) int { return cmp.Compare(a.Type, b.Type) })
	return sorted
}

// entityKey packs a canonical entity. Defaults sort before names.
func entityKey(entity []QuotaEntityPart) string {
	var b []byte
	for _, part := range entity {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(part.Type))), part.Type...)
		if part.Name == nil {
			b = append(b, 0)
			continue
		}
		b = append(b, 1)
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(*part.Name))), *part.Name...)
	}
	return string(b)
}

// scramKey packs user and mechanism so that keys sort by both. Names hold no zero byte.
func scramKey(user string, m ScramMechanism) string { return user + "\x00" + string([]byte{byte(m)}) }
