package telemetry

// Transactions are the handles of what transaction coordinators and partitions know of transactions.
type Transactions struct {
	IDs                                Gauge
	Ongoing, Committing, Aborting      Gauge
	OldestSeconds                      Gauge
	Partitions, Hanging, LastStableLag Gauge
}

// NewTransactions makes the handles.
func NewTransactions(r *Registry) Transactions {
	return Transactions{
		IDs:           r.Gauge("moldau_transactional_ids"),
		Ongoing:       r.Gauge("moldau_transactions", "ongoing"),
		Committing:    r.Gauge("moldau_transactions", "committing"),
		Aborting:      r.Gauge("moldau_transactions", "aborting"),
		OldestSeconds: r.Gauge("moldau_transaction_oldest_seconds"),
		Partitions:    r.Gauge("moldau_transaction_partitions"),
		Hanging:       r.Gauge("moldau_hanging_transactions"),
		LastStableLag: r.Gauge("moldau_last_stable_lag_records"),
	}
}
