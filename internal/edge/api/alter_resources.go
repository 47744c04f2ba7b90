package api

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
)

// resource names what has a configuration.
type resource struct {
	kind kmsg.ConfigResourceType
	name string
}

// alteration is one resource of a request that alters configurations, and what became of it.
type alteration struct {
	resource
	// done says that the outcome is known; else the controller is asked.
	done    bool
	code    int16
	message *string
}

// settle notes the outcome: nil is success.
func (a *alteration) settle(err error) {
	a.done = true
	a.code, a.message = codeAndMessage(err)
}

// refuse notes an error as the outcome; nil changes nothing.
func (a *alteration) refuse(err error) {
	if err != nil {
		a.settle(err)
	}
}

// screen finds what must not reach the controller: resources that stand there twice, and those that only another broker
// may alter. A broker judges its own settings, so it is asked for them itself; loggers never reach the controller.
// On a controller's listener the settings of any broker may be altered: who sent them has judged them.
func (b *Broker) screen(c *server.Call, all []alteration) {
	count := map[resource]int{}
	for _, a := range all {
		count[a.resource]++
	}
	for i := range all {
		a := &all[i]
		if count[a.resource] > 1 {
			a.refuse(kafka.Errorf(kafka.InvalidRequest, "the resource %q stands there twice", a.name))
			continue
		}
		switch a.kind {
		case kmsg.ConfigResourceTypeBroker:
			if a.name != "" && c.Conn.Kind != server.ControllerListener {
				a.refuse(b.checkOwnID(a.name))
			}
		case kmsg.ConfigResourceTypeBrokerLogger:
			a.refuse(b.checkOwnID(a.name))
		case kmsg.ConfigResourceTypeTopic:
			if a.name != "" {
				a.refuse(checkTopicName(a.name))
			}
		case kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig:
		default:
			a.refuse(kafka.Errorf(kafka.InvalidRequest, "resource type %d has no configurations", a.kind))
		}
	}
}

// checkOwnID refuses the name of a broker or logger resource that is not this broker's.
func (b *Broker) checkOwnID(name string) error {
	id, err := strconv.ParseInt(name, 10, 32)
	switch {
	case err != nil:
		return kafka.Errorf(kafka.InvalidRequest, "%q is no broker id", name)
	case kafka.NodeID(id) != b.Self:
		return kafka.Errorf(kafka.InvalidRequest, "this is broker %d; ask broker %s about its settings", b.Self, name)
	}
	return nil
}

// settleRest gives what is still open an outcome: the controller's, as told, or why that did not answer. It returns the
// first error of all, for the metrics.
func settleRest(all []alteration, told map[resource]alteration, err error) kafka.Code {
	if err == nil {
		err = kafka.UnknownServerError // an answer without this resource
	}
	var first kafka.Code
	for i := range all {
		a := &all[i]
		if answered, ok := told[a.resource]; ok && !a.done {
			*a = answered
		} else if !a.done {
			a.settle(err)
		}
		if first == 0 {
			first = kafka.Code(a.code)
		}
	}
	return first
}
