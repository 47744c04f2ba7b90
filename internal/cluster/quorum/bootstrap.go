package quorum

import (
	"errors"
	"io/fs"
	"path"

	"moldau/internal/cluster/metadata"
)

// Bootstrap gives the records that the first controller of a cluster writes, as the formatted directory
// states them: from the 0-0 checkpoint, or from the bootstrap.checkpoint of earlier releases at the top of
// the metadata directory. Without either it is nil, and the controller starts with the newest
// metadata.version of production.
func (p *Pump) Bootstrap() ([]metadata.Record, error) {
	for _, name := range []string{
		path.Join(p.store.dir, snapshotName(bootstrapID)),
		path.Join(path.Dir(p.store.dir), legacyBootstrapName),
	} {
		r, err := openSnapshotFile(p.store.fs, name, bootstrapID)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		records, err := readRecords(r)
		if err != nil || len(records) > 0 {
			return records, err
		}
	}
	return nil, nil
}

func readRecords(r *SnapshotReader) ([]metadata.Record, error) {
	defer r.Close()
	var out []metadata.Record
	for b, err := range r.Batches() {
		if err != nil {
			return nil, err
		}
		records, err := DecodeRecords(b.Values)
		if err != nil {
			return nil, err
		}
		out = append(out, records...)
	}
	return out, nil
}
