package controller

import "github.com/twmb/franz-go/pkg/kmsg"

func (t *turn) alterPartition(r *kmsg.AlterPartitionRequest) Result             { return Result{} }
func (t *turn) unregisterBroker(r *kmsg.UnregisterBrokerRequest) Result         { return Result{} }
func (t *turn) registerController(r *kmsg.ControllerRegistrationRequest) Result { return Result{} }
func (t *turn) createPartitions(r *kmsg.CreatePartitionsRequest) Result         { return Result{} }
func (t *turn) alterConfigs(r *kmsg.AlterConfigsRequest) Result                 { return Result{} }
func (t *turn) incrementalAlterConfigs(r *kmsg.IncrementalAlterConfigsRequest) Result {
	return Result{}
}
func (t *turn) electLeaders(r *kmsg.ElectLeadersRequest) Result     { return Result{} }
func (t *turn) updateFeatures(r *kmsg.UpdateFeaturesRequest) Result { return Result{} }
