package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

func newQuorumRemove(s streams) *cobra.Command {
	c := &cobra.Command{Use: "remove ID", Short: "Take a node that has stopped for good out of the metadata quorum",
		Long: `Take a node that has stopped for good out of the metadata quorum. The quorum must have dynamic voters (KIP-853), as one that
was founded with --cluster has. A node that runs, and is told to be a controller, joins again by itself.`,
		Args: args(1, 1, "the id of a node")}
	f := clientFlagsOf(c)
	directory := c.Flags().String("directory", "", "`id` of the voter's directory (default: the one that moldau cluster quorum shows)")
	c.RunE = f.onBroker(func(ctx context.Context, ses *session, id int32) error {
		if err := ses.removeVoter(ctx, id, *directory); err != nil {
			return err
		}
		_, err := fmt.Fprintf(s.out, "node %d votes no more\n", id)
		return err
	})
	return c
}

func (s *session) removeVoter(parent context.Context, id int32, directory string) error {
	ctx, cancel := s.bound(parent)
	defer cancel()
	if directory == "" {
		d, err := s.quorumDetail(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(d.Replicas, func(r quorumReplica) bool { return r.Node == id && r.Role != "observer" })
		if i < 0 {
			return fmt.Errorf("node %d is no voter; moldau cluster quorum shows them", id)
		}
		directory = d.Replicas[i].Directory
	}
	req := kmsg.NewPtrRemoveRaftVoterRequest()
	req.VoterID = id
	if directory != "" {
		at, err := kafka.ParseUUID(directory)
		if err != nil {
			return fmt.Errorf("--directory %s: %w", directory, err)
		}
		req.VoterDirectoryID = at
	}
	resp, err := req.RequestWith(ctx, s)
	if err == nil {
		err = answered(resp.ErrorCode, resp.ErrorMessage)
	}
	if err != nil {
		return s.about(fmt.Sprintf("node %d", id), err)
	}
	return nil
}
