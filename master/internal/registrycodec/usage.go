package registrycodec

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/logpb"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/registry/spent"
)

func recordUsageToLog(c registry.RecordUsage) *logpb.RecordUsage {
	return &logpb.RecordUsage{Saw: wire.TimeToProto(c.Saw), Until: wire.TimeToProto(c.Until), Hours: wire.Each(c.Hours, usageToLog)}
}

func recordUsageFromLog(m *logpb.RecordUsage) registry.RecordUsage {
	return registry.RecordUsage{Saw: wire.TimeOf(m.GetSaw()), Until: wire.TimeOf(m.GetUntil()), Hours: wire.Each(m.GetHours(), usageFromLog)}
}

func usageToLog(p spent.Period) *logpb.UsageItem {
	m := &logpb.UsageItem{Begin: wire.TimeToProto(p.Begin), Hours: uint32(p.Hours)}
	for _, row := range p.Rows {
		one := &logpb.UsageRow{
			Role: string(row.Role), Principal: row.Principal, FrameworkId: string(row.Framework), FrameworkName: row.Name, Job: row.Job,
		}
		for _, sum := range row.Sums {
			one.Sums = append(one.Sums, &logpb.UsageSum{Resource: sum.Resource, Held: sum.Held, Used: sum.Used})
		}
		for _, ends := range row.Ends {
			one.Ends = append(one.Ends, &logpb.UsageEnds{State: uint32(ends.State), Count: ends.Count})
		}
		m.Rows = append(m.Rows, one)
	}
	return m
}

func usageFromLog(m *logpb.UsageItem) spent.Period {
	p := spent.Period{Begin: wire.TimeOf(m.GetBegin()), Hours: int(m.GetHours())}
	for _, one := range m.GetRows() {
		row := spent.Row{Name: one.GetFrameworkName(), Key: spent.Key{
			Role: api.Role(one.GetRole()), Principal: one.GetPrincipal(), Framework: api.FrameworkID(one.GetFrameworkId()), Job: one.GetJob(),
		}}
		for _, sum := range one.GetSums() {
			row.Sums = append(row.Sums, spent.Sum{Resource: sum.GetResource(), Held: sum.GetHeld(), Used: sum.GetUsed()})
		}
		for _, ends := range one.GetEnds() {
			row.Ends = append(row.Ends, spent.Ends{State: api.TaskState(ends.GetState()), Count: ends.GetCount()})
		}
		p.Rows = append(p.Rows, row)
	}
	return p
}
