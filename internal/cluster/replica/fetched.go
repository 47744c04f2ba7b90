package replica

import (
	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// intact cuts what a leader sent down to the whole batches that may be appended: the last one may be cut off, and one of
// an epoch above that of the fetch belongs to a term this replica has not heard of yet (KAFKA-18723). It fails with
// CorruptMessage at the first batch whose checksum is wrong; rot must not spread.
func intact(fetched []byte, epoch kafka.LeaderEpoch) ([]byte, error) {
	at := 0
	for at < len(fetched) {
		size, magic, err := record.EntrySize(fetched[at:])
		if err == record.ErrTruncated || err == nil && size > len(fetched)-at {
			if at == 0 { // a leader gives the first batch whole, or none
				return nil, kafka.Errorf(kafka.CorruptMessage, "fetched: the first batch is cut off")
			}
			break
		}
		if err != nil {
			return nil, kafka.Errorf(kafka.CorruptMessage, "fetched: %v", err)
		}
		entry := fetched[at : at+size]
		if magic < record.Magic {
			err = checkLegacy(entry)
		} else if err = record.Batch(entry).CheckCRC(); err == nil && record.Batch(entry).LeaderEpoch() > epoch {
			break
		}
		if err != nil {
			return nil, kafka.Errorf(kafka.CorruptMessage, "fetched: %v", err)
		}
		at += size
	}
	return fetched[:at], nil
}

func checkLegacy(entry []byte) error {
	l, _, err := record.SplitLegacy(entry)
	if err != nil {
		return err
	}
	return l.CheckCRC()
}
