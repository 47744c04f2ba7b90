package config

// Scope says which kind of resource a key belongs to.
type Scope int8

// The scopes, in the order of the reference page.
const (
	Topic Scope = iota
	Broker
	Group
	ClientMetrics
)

// String gives the scope's name as the documentation writes it.
func (s Scope) String() string {
	return [...]string{"topic", "broker", "group", "client-metrics"}[s]
}

// Type is a ConfigDef type. The numbers are those of DescribeConfigs (KIP-569).
type Type int8

// The types of DescribeConfigs. Unknown is what a key outside the table has.
const (
	Unknown  Type = 0
	Boolean  Type = 1
	String   Type = 2
	Int      Type = 3 // 32 bit
	Short    Type = 4 // 16 bit
	Long     Type = 5 // 64 bit
	Double   Type = 6
	List     Type = 7 // comma separated
	Class    Type = 8 // a Java class name: compared, never loaded
	Password Type = 9 // never shown
)

// String gives the type's name as Kafka's documentation writes it.
func (t Type) String() string {
	return [...]string{"unknown", "boolean", "string", "int", "short", "long", "double", "list", "class",
		"password"}[t]
}

// Update says how a broker key may change while the broker runs (KIP-226).
type Update int8

// The update modes. Topic, group and client-metrics keys are always dynamic: their mode is ClusterWide.
const (
	ReadOnly    Update = iota // needs a restart
	PerBroker                 // may be altered for one broker
	ClusterWide               // may be altered for one broker or for all
)

// String gives the mode as Kafka's documentation writes it.
func (u Update) String() string { return [...]string{"read-only", "per-broker", "cluster-wide"}[u] }

// Importance is Kafka's grading of how likely a user needs the key.
type Importance int8

// The grades.
const (
	High Importance = iota
	Medium
	Low
)

// String gives the grade as Kafka's documentation writes it.
func (i Importance) String() string { return [...]string{"high", "medium", "low"}[i] }

// Standing says what Moldau does with a key.
type Standing int8

// The standings.
const (
	Honoured Standing = iota // does what its documentation says
	Inert                    // accepted and kept, has nothing to act on here
	Refused                  // any value but the default stops the start: ignoring it would be dangerous
)

// String gives the standing for the reference page.
func (s Standing) String() string { return [...]string{"honoured", "no effect", "not built"}[s] }

// Key is one row of the table. Keys are shared and must not be changed.
type Key struct {
	Name       string
	Scope      Scope
	Type       Type
	Default    string // meaningless while NoDefault
	NoDefault  bool   // the default is null
	Rule       Rule   // nil: every value of the type is allowed
	Update     Update
	Importance Importance
	Doc        string
	Standing   Standing
	Reason     string    // why Standing is not Honoured
	Internal   bool      // listed by DescribeConfigs only when set, as Kafka does with internal keys
	Throttled  bool      // a dynamic change may at most double or halve the value (thread pools)
	Synonyms   []Synonym // where an unset value comes from, in order of precedence
	KafkaValue string    // Kafka's own default, where ours differs on purpose
	// Adapt computes the default from the size of the cluster that is being started; nil: Default is the default.
	Adapt func(nodes int) string
}

// Synonym names a key that stands in for another one: for a topic, group or broker key, the broker keys that give
// its value when it is not set itself.
type Synonym struct {
	Name   string
	Unit   Unit
	Silent bool // not listed by DescribeConfigs
}

// Unit says by what a synonym's value must be multiplied to serve the key.
type Unit int64

// The units of Kafka's synonyms. First takes the first entry of a list.
const (
	Same         Unit = 1
	MinutesToMs  Unit = 60 * 1000
	HoursToMs    Unit = 60 * MinutesToMs
	FirstOfAList Unit = -1
)

// Sensitive says whether the value must never be shown.
func (k *Key) Sensitive() bool { return k.Type == Password }

// Allowed describes in a few words which values the key takes.
func (k *Key) Allowed() string {
	kind := map[Type]string{
		Boolean: "true or false", String: "text", Int: "a whole number (32 bit)", Short: "a whole number (16 bit)",
		Long: "a whole number (64 bit)", Double: "a number", List: "a comma separated list", Class: "a class name",
		Password: "text (secret)", Unknown: "text",
	}[k.Type]
	if k.Rule == nil {
		return kind
	}
	return k.Rule.Allowed(kind)
}

// chain lists a broker key itself and what stands in for it, in order of precedence, as DescribeConfigs tells it.
func (k *Key) chain() []string {
	names := []string{k.Name}
	for _, s := range k.Synonyms {
		if !s.Silent {
			names = append(names, s.Name)
		}
	}
	return names
}
