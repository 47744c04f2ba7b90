package assignor

import "moldau/internal/kafka"

// Member is a member of a group, as far as assignments depend on it.
type Member struct {
	ID         string
	InstanceID *string // of a static member (KIP-345)
	RackID     *string // carried for assignors that will look at it
	// Topics are the topics the member subscribes to that exist, by name or regular expression, ascending.
	Topics []kafka.UUID
	// Owned is the member's part of the current target assignment.
	Owned map[kafka.UUID][]int32
}

// Topic is a topic that somebody subscribes to.
type Topic struct {
	ID         kafka.UUID
	Name       string
	Partitions int32
	Racks      func(partition int32) []string // racks that have a replica of it; nil when unknown
}

// Spec is what an assignment depends on. Assignors only read it.
type Spec struct {
	Members []Member // ascending by ID
	Topics  map[kafka.UUID]Topic
}

// Assignment says what each member should own: member id, topic, partitions in ascending order. Every member of the Spec
// has an entry; a topic of which a member gets nothing has none. It shares no memory with the Spec.
type Assignment map[string]map[kafka.UUID][]int32

// Assignor computes assignments.
type Assignor interface {
	// Name is what members ask for and group.consumer.assignors lists.
	Name() string
	// Assign gives every partition of every topic that has a subscriber to exactly one of its subscribers. What Owned
	// says of partitions that do not exist, that the member no longer subscribes to or that an earlier member owns
	// too is ignored. It fails with UNKNOWN_SERVER_ERROR, as Kafka does, when a member subscribes to a topic that is
	// not in the Spec.
	Assign(Spec) (Assignment, error)
}

// ByName finds an assignor by the name clients use; an unknown name is UNSUPPORTED_ASSIGNOR for them.
func ByName(name string) (Assignor, bool) {
	for _, a := range []Assignor{Uniform(), Range()} {
		if a.Name() == name {
			return a, true
		}
	}
	return nil, false
}
