package telemetry

// Coordinator are the handles of the coordinators of one kind. The zero value counts nothing.
type Coordinator struct {
	LoadSeconds                 Histogram
	LoadRecords, LoadBadRecords Counter
	LoadFailures                Counter
	Events                      Counter
	Appends, Records            Counter
	AppendErrors                Counter
	CommitSeconds               Histogram
	CommitTimeouts              Counter
}

// CoordinatorCounts are how many shards are in which state, and how many requests wait.
type CoordinatorCounts struct{ Loading, Active, Failed, Parked, Waiting int }

// NewCoordinator makes the handles of the coordinators of one kind: group, transaction or share. counts is asked when
// metrics are read.
func NewCoordinator(r *Registry, kind string, counts func() CoordinatorCounts) Coordinator {
	state := func(name string, of func(CoordinatorCounts) int) {
		r.GaugeFunc(func() float64 { return float64(of(counts())) }, "moldau_coordinator_shards", kind, name)
	}
	state("loading", func(c CoordinatorCounts) int { return c.Loading })
	state("active", func(c CoordinatorCounts) int { return c.Active })
	state("failed", func(c CoordinatorCounts) int { return c.Failed })
	r.GaugeFunc(func() float64 { return float64(counts().Parked) }, "moldau_coordinator_parked_requests", kind)
	r.GaugeFunc(func() float64 { return float64(counts().Waiting) }, "moldau_coordinator_waiting_requests", kind)
	return Coordinator{
		LoadSeconds:    r.Histogram("moldau_coordinator_load_seconds", kind),
		LoadRecords:    r.Counter("moldau_coordinator_load_records_total", kind),
		LoadBadRecords: r.Counter("moldau_coordinator_load_bad_records_total", kind),
		LoadFailures:   r.Counter("moldau_coordinator_load_failures_total", kind),
		Events:         r.Counter("moldau_coordinator_events_total", kind),
		Appends:        r.Counter("moldau_coordinator_appends_total", kind),
		Records:        r.Counter("moldau_coordinator_records_total", kind),
		AppendErrors:   r.Counter("moldau_coordinator_append_errors_total", kind),
		CommitSeconds:  r.Histogram("moldau_coordinator_commit_seconds", kind),
		CommitTimeouts: r.Counter("moldau_coordinator_commit_timeouts_total", kind),
	}
}
