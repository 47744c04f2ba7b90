package metadata

import "fmt"

// ApplyError says which record does not apply to an image, and why. Nothing of the call has happened.
type ApplyError struct {
	Index  int // of the record in the list given to Apply
	Record Record
	Reason string
}

// Error gives index, type and reason.
func (e *ApplyError) Error() string {
	return fmt.Sprintf("record %d (%s) does not apply: %s", e.Index, e.Record.Type(), e.Reason)
}

// Apply gives the image after some records, and what they changed. The image itself does not change. A record that
// does not apply is an *ApplyError, and then there is no image: a controller must not append the records, a reader of
// the log cannot go on.
//
// Records between a BeginTransactionRecord and an EndTransactionRecord become visible, in image and diff, at the end;
// the image in between carries them along unseen (KIP-866).
//
// The image keeps slices of the records: they must not be written to afterwards. The position stays the same, see
// WithPosition.
func (i *Image) Apply(records []Record) (*Image, *Diff, error) {
	e := newEdit(i.orEmpty())
	for n, r := range records {
		if err := e.apply(r); err != nil {
			return nil, nil, &ApplyError{Index: n, Record: r, Reason: err.Error()}
		}
	}
	image, diff := e.finish()
	return image, diff, nil
}

// edit is an Apply call under way. It writes to img, which it owns as far as things carry its token.
type edit struct {
	token *token
	img   *Image
	diff  *Diff

	// outer is what an open transaction is to be published into: img and diff are the transaction's then.
	outer *suspended
}

// suspended is the visible side of an edit while a transaction is open.
type suspended struct {
	name string
	img  *Image
	diff *Diff
}

func newEdit(base *Image) *edit {
	img := *base
	e := &edit{token: new(token), img: &img, diff: new(Diff)}
	if open := img.open; open != nil {
		img.open = nil
		e.suspend(open.name, open.image)
		e.diff.add(open.diff)
	}
	return e
}

// suspend sets the visible image aside and goes on with a copy of scratch.
func (e *edit) suspend(name string, scratch *Image) {
	e.outer = &suspended{name, e.img, e.diff}
	img := *scratch
	e.img, e.diff, e.token = &img, new(Diff), new(token)
}

func (e *edit) finish() (*Image, *Diff) {
	if e.outer == nil {
		return e.img, e.diff
	}
	image := e.outer.img
	image.open = &transaction{e.outer.name, e.img, e.diff}
	return image, e.outer.diff
}

func (e *edit) apply(r Record) error {
	switch r := r.(type) {
	case *RegisterBrokerRecord:
		return e.registerBroker(r)
	case *UnregisterBrokerRecord:
		return e.unregisterBroker(r)
	case *FenceBrokerRecord:
		return e.changeBroker(&BrokerRegistrationChangeRecord{BrokerID: r.ID, BrokerEpoch: r.Epoch, Fenced: Fence})
	case *UnfenceBrokerRecord:
		return e.changeBroker(&BrokerRegistrationChangeRecord{BrokerID: r.ID, BrokerEpoch: r.Epoch, Fenced: Unfence})
	case *BrokerRegistrationChangeRecord:
		return e.changeBroker(r)
	case *RegisterControllerRecord:
		return e.registerController(r)
	case *UnregisterControllerRecord:
		return e.unregisterController(r)
	case *TopicRecord:
		return e.createTopic(r)
	case *RemoveTopicRecord:
		return e.removeTopic(r)
	case *PartitionRecord:
		return e.setPartition(r)
	case *PartitionChangeRecord:
		return e.changePartition(r)
	case *ClearElrRecord:
		return e.clearElr(r)
	case *ConfigRecord:
		e.setConfig(r)
		return nil
	case *FeatureLevelRecord:
		return e.setFeature(r)
	case *ProducerIDsRecord:
		return e.setProducerIDs(r)
	case *NoOpRecord, *ZkMigrationStateRecord:
		return nil
	case *BeginTransactionRecord:
		return e.beginTransaction(r)
	case *EndTransactionRecord:
		return e.endTransaction()
	case *AbortTransactionRecord:
		return e.abortTransaction()
	}
	return e.applySecurity(r)
}

func (e *edit) applySecurity(r Record) error {
	switch r := r.(type) {
	case *ClientQuotaRecord:
		e.setQuota(r)
		return nil
	case *AccessControlEntryRecord:
		return e.addACL(r)
	case *RemoveAccessControlEntryRecord:
		return e.removeACL(r)
	case *UserScramCredentialRecord:
		e.setScram(r)
		return nil
	case *RemoveUserScramCredentialRecord:
		return e.removeScram(r)
	case *DelegationTokenRecord:
		e.setToken(r)
		return nil
	case *RemoveDelegationTokenRecord:
		e.removeToken(r)
		return nil
	}
	return fmt.Errorf("no rule for %T", r)
}

func (e *edit) beginTransaction(r *BeginTransactionRecord) error {
	if e.outer != nil {
		return fmt.Errorf("transaction %q is open", e.outer.name)
	}
	name := ""
	if r.Name != nil {
		name = *r.Name
	}
	e.suspend(name, e.img)
	return nil
}

func (e *edit) endTransaction() error {
	if e.outer == nil {
		return fmt.Errorf("no transaction is open")
	}
	visible, diff := e.outer.img, e.outer.diff
	e.img.offset, e.img.epoch, e.img.timestampMs = visible.offset, visible.epoch, visible.timestampMs
	diff.add(e.diff)
	e.outer, e.diff = nil, diff
	return nil
}

func (e *edit) abortTransaction() error {
	if e.outer == nil {
		return fmt.Errorf("no transaction is open")
	}
	e.img, e.diff = e.outer.img, e.outer.diff
	e.outer = nil
	return nil
}
