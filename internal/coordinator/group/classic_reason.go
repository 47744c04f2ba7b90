package group

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What the history of rebalances keeps of the words of clients, of lists of members, and of what happened during one
// rebalance: a group of thousands must not remember all its names twenty times.
const (
	longClientReason = 255  // bytes; as long as Kafka's own clients let it be
	longList         = 5    // members
	longReason       = 600  // bytes, after which nothing is added
	longestReason    = 2000 // bytes, whatever it consists of: the names of members are clients' words too
	andSoOn          = "; and more"
)

// clip cuts a text to the longest that is kept.
func clip(text string) string {
	if len(text) <= longestReason {
		return text
	}
	return strings.ToValidUTF8(text[:longestReason-len(andSoOn)], "") + andSoOn
}

// because words why a member joins: what the coordinator sees and what the client says (KIP-800).
func because(what string, r *kmsg.JoinGroupRequest) string {
	if r.Reason == nil {
		return what
	}
	return what + says(*r.Reason)
}

// says words what a client gave as its reason; nothing if it gave none.
func says(reason string) string {
	if reason == "" {
		return ""
	}
	if len(reason) > longClientReason {
		reason = strings.ToValidUTF8(reason[:longClientReason], "")
	}
	return "; it says: " + reason
}

// list names members, the first ones if they are many.
func list(members []string) string {
	if more := len(members) - longList; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(members[:longList], ", "), more)
	}
	return strings.Join(members, ", ")
}
