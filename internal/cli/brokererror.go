package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// brokerError is an error that a broker answered.
type brokerError struct {
	code    *kerr.Error
	message string // the broker's own words, or ""
}

// Error says what the broker said, and what can be done about it where that is known.
func (e *brokerError) Error() string {
	text := e.message
	if text == "" {
		text = e.code.Description
	}
	text = strings.TrimSuffix(strings.TrimSpace(text), ".")
	if !strings.Contains(text, e.code.Message) {
		text += " (" + e.code.Message + ")"
	}
	if cure := cureOf(e.code); cure != "" {
		text += "; " + cure
	}
	return text
}

func (e *brokerError) Unwrap() error { return e.code }

// answered gives the error of a response's code and message, nil for none.
func answered(code int16, message *string) error {
	if code == 0 {
		return nil
	}
	e := &brokerError{code: kerr.TypedErrorForCode(code)}
	if message != nil {
		e.message = *message
	}
	return e
}

func asBrokerError(err error) (*brokerError, bool) {
	if e, ok := errors.AsType[*brokerError](err); ok {
		return e, true
	}
	if e, ok := errors.AsType[*kerr.Error](err); ok {
		return &brokerError{code: e}, true
	}
	return nil, false
}

// about puts what an error is about before it. A shard error of kadm loses its wrapping, which only repeats the request.
func (s *session) about(what string, err error) error {
	if err == nil {
		return nil
	}
	var shards *kadm.ShardErrors
	if errors.As(err, &shards) && len(shards.Errs) > 0 {
		err = shards.Errs[0].Err
	}
	return fmt.Errorf("%s: %w", what, s.explain(err))
}

// cureOf says what helps against the errors that people meet most.
func cureOf(e *kerr.Error) string {
	switch e {
	case kerr.UnknownTopicOrPartition, kerr.UnknownTopicID:
		return "moldau topic list shows what exists"
	case kerr.TopicAlreadyExists:
		return "--if-not-exists makes this no error"
	case kerr.InvalidTopicException:
		return "a name has at most 249 letters, digits, dots, underscores and hyphens"
	case kerr.InvalidReplicationFactor:
		return "moldau cluster info shows how many brokers there are"
	case kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend:
		return "moldau topic describe shows which replicas are in sync; min.insync.replicas says how many it takes"
	case kerr.MessageTooLarge:
		return "raise max.message.bytes of the topic or send smaller records"
	case kerr.LeaderNotAvailable:
		return "moldau topic describe shows which partitions have no leader"
	case kerr.KafkaStorageError:
		return "the broker's disk is full or failed; its log says which"
	case kerr.GroupIDNotFound:
		return "moldau group list shows what exists"
	case kerr.ProducerFenced, kerr.InvalidProducerEpoch:
		return "another producer has taken the transactional id over, or the transaction timed out; moldau explain txn says which"
	case kerr.InvalidTransactionTimeout:
		return "the broker's transaction.max.timeout.ms bounds it"
	case kerr.TransactionalIDNotFound:
		return "moldau txn list shows what exists"
	case kerr.NonEmptyGroup:
		return "stop its members first; moldau group describe shows them"
	case kerr.GroupSubscribedToTopic:
		return "members of the group read it; moldau group describe shows them"
	case kerr.OffsetOutOfRange:
		return "moldau topic describe shows the first and last offset"
	}
	return ""
}
