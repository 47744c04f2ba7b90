package metadata

// VersionFor is the version in which a record is written at a metadata.version, in the log as well as in snapshots.
// A registration change goes by its content instead: it takes the lowest version that has its fields.
func VersionFor(r Record, mv int16) int16 {
	switch r := r.(type) {
	case *RegisterBrokerRecord:
		return registerBrokerVersion(mv)
	case *PartitionRecord, *PartitionChangeRecord:
		return partitionVersion(mv)
	case *BrokerRegistrationChangeRecord:
		return registrationChangeVersion(r)
	}
	return 0
}

func registerBrokerVersion(mv int16) int16 {
	switch {
	case mv >= MVCordonedLogDirs:
		return 4
	case mv >= MVDirectories:
		return 3
	case mv >= mvZkMigration:
		return 2
	}
	return 1
}

func partitionVersion(mv int16) int16 {
	switch {
	case mv >= MVElr:
		return 2
	case mv >= MVDirectories:
		return 1
	}
	return 0
}

func registrationChangeVersion(r *BrokerRegistrationChangeRecord) int16 {
	switch {
	case r.CordonedLogDirs != nil:
		return 3
	case len(r.LogDirs) > 0:
		return 2
	case r.InControlledShutdown:
		return 1
	}
	return 0
}

// RequiredMetadataVersion is the lowest metadata.version at which a record of the type may be written at all.
func RequiredMetadataVersion(t RecordType) int16 {
	switch t {
	case TypeUserScramCredential, TypeRemoveUserScramCredential:
		return MVScram
	case TypeBeginTransaction, TypeEndTransaction, TypeAbortTransaction:
		return MVTransactions
	case TypeDelegationToken, TypeRemoveDelegationToken:
		return MVDelegationTokens
	case TypeRegisterController:
		return MVControllers
	case TypeClearElr:
		return MVElr
	case TypeUnregisterController:
		return MVUnregisterController
	}
	return MinMetadataVersion
}
