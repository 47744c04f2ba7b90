package metadata

import "fmt"

func (e *edit) setConfig(r *ConfigRecord) {
	resource := ConfigResource{r.ResourceType, r.ResourceName}
	c := e.configs(resource)
	var old *string
	if value, ok := c.Get(r.Name); ok {
		old = &value
	}
	if r.Value != nil {
		c.values.set(e.token, r.Name, *r.Value)
	} else {
		c.values.delete(e.token, r.Name)
	}
	if c.Len() == 0 {
		e.img.configs.delete(e.token, resourceKey(resource.Type, resource.Name))
	}
	e.diff.configs.note(configKey{resource, r.Name}, old, r.Value)
}

// configs gives the configs of a resource for writing.
func (e *edit) configs(resource ConfigResource) *Configs {
	key := resourceKey(resource.Type, resource.Name)
	c, ok := e.img.configs.get(key)
	if ok && c.values.owner == e.token {
		return c
	}
	next := &Configs{Resource: resource}
	if ok {
		*next = *c
	}
	next.values.own(e.token)
	e.img.configs.set(e.token, key, next)
	return next
}

func (e *edit) dropConfigs(t ResourceType, name string) {
	c, ok := e.img.configs.get(resourceKey(t, name))
	if !ok {
		return
	}
	for key, value := range c.All() {
		e.diff.configs.note(configKey{c.Resource, key}, &value, nil)
	}
	e.img.configs.delete(e.token, resourceKey(t, name))
}

// setFeature refuses what Kafka's controllers cannot replay: levels they do not know, of features known or not. Such a
// record never gets into a log that this node may follow, because it could not have registered.
func (e *edit) setFeature(r *FeatureLevelRecord) error {
	if r.Name == KRaftVersionFeature {
		return nil // written by accident by some releases; control records say what counts
	}
	known, ok := LookupFeature(r.Name)
	if !ok && r.Level != 0 {
		return fmt.Errorf("unknown feature %q at level %d", r.Name, r.Level)
	}
	if ok && (r.Level < known.Min || r.Level > known.Max) {
		return fmt.Errorf("%s %d is outside %d to %d", r.Name, r.Level, known.Min, known.Max)
	}
	var before *int16
	if level, ok := e.img.features.get(r.Name); ok {
		before = &level
	}
	if r.Level == 0 {
		e.img.features.delete(e.token, r.Name)
		e.diff.features.note(r.Name, before, nil)
		return nil
	}
	e.img.features.set(e.token, r.Name, r.Level)
	e.diff.features.note(r.Name, before, new(r.Level))
	return nil
}

func (e *edit) setProducerIDs(r *ProducerIDsRecord) error {
	before := e.img.nextProducerID
	if r.NextProducerID <= before {
		return fmt.Errorf("next producer id %d is not above %d", r.NextProducerID, before)
	}
	e.img.nextProducerID = r.NextProducerID
	e.diff.producerIDs.note(struct{}{}, new(before), new(r.NextProducerID))
	return nil
}

func (e *edit) setQuota(r *ClientQuotaRecord) {
	entity := canonicalEntity(r.Entity)
	key := entityKey(entity)
	q, known := e.img.quotas.get(key)
	if !known && r.Remove {
		return
	}
	if !known || q.values.owner != e.token {
		next := &Quota{Entity: entity}
		if known {
			*next = *q
		}
		q = next
		q.values.own(e.token)
		e.img.quotas.set(e.token, key, q)
	}
	var old, now *quotaValue
	if value, ok := q.Get(r.Key); ok {
		old = &quotaValue{q.Entity, value}
	}
	if r.Remove {
		q.values.delete(e.token, r.Key)
	} else {
		now = &quotaValue{q.Entity, r.Value}
		q.values.set(e.token, r.Key, r.Value)
	}
	if q.values.len() == 0 {
		e.img.quotas.delete(e.token, key)
	}
	e.diff.quotas.note(quotaKey{key, r.Key}, old, now)
}

func (e *edit) addACL(r *AccessControlEntryRecord) error {
	if _, ok := e.img.acls.get(string(r.ID[:])); ok {
		return fmt.Errorf("access control entry %s exists", r.ID)
	}
	e.img.acls.set(e.token, string(r.ID[:]), r)
	e.diff.acls.note(r.ID, nil, r)
	return nil
}

func (e *edit) removeACL(r *RemoveAccessControlEntryRecord) error {
	old, ok := e.img.acls.get(string(r.ID[:]))
	if !ok {
		return fmt.Errorf("there is no access control entry %s", r.ID)
	}
	e.img.acls.delete(e.token, string(r.ID[:]))
	e.diff.acls.note(r.ID, old, nil)
	return nil
}

func (e *edit) setScram(r *UserScramCredentialRecord) {
	key := scramKey(r.Name, r.Mechanism)
	old, _ := e.img.scram.get(key)
	e.img.scram.set(e.token, key, r)
	e.diff.scram.note(key, old, r)
}

func (e *edit) removeScram(r *RemoveUserScramCredentialRecord) error {
	key := scramKey(r.Name, r.Mechanism)
	old, ok := e.img.scram.get(key)
	if !ok {
		return fmt.Errorf("user %q has no credential of mechanism %d", r.Name, r.Mechanism)
	}
	e.img.scram.delete(e.token, key)
	e.diff.scram.note(key, old, nil)
	return nil
}

func (e *edit) setToken(r *DelegationTokenRecord) {
	old, _ := e.img.tokens.get(r.TokenID)
	e.img.tokens.set(e.token, r.TokenID, r)
	e.diff.tokens.note(r.TokenID, old, r)
}

// removeToken forgives a token that is not there, as Kafka does: tokens expire and are removed by two ways.
func (e *edit) removeToken(r *RemoveDelegationTokenRecord) {
	old, ok := e.img.tokens.get(r.TokenID)
	if !ok {
		return
	}
	e.img.tokens.delete(e.token, r.TokenID)
	e.diff.tokens.note(r.TokenID, old, nil)
}
