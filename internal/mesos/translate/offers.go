package translate

import (
	"regexp"
	"strconv"
	"time"

	"github.com/tenderhq/tender/api"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
)

// AgentPort is where Mesos's agents answer, and where clients look for them whatever an offer says.
const AgentPort = 5051

// AgentURL is the address of an agent as offers tell it. ip must be one: there are clients that take it without asking.
func AgentURL(hostname, ip string) *mesosv1.URL {
	return &mesosv1.URL{
		Scheme:  ptr("http"),
		Address: &mesosv1.Address{Hostname: ptr(hostname), Ip: ptr(ip), Port: ptr(int32(AgentPort))},
		Path:    ptr("/slave(1)"),
	}
}

// WriteOffer writes an offer for the framework. ip is an address of its agent.
func (f *Framework) WriteOffer(offer api.Offer, ip string, places map[api.VolumeID]Place) *mesosv1.Offer {
	o := &mesosv1.Offer{
		Id:          &mesosv1.OfferID{Value: ptr(string(offer.ID))},
		FrameworkId: &mesosv1.FrameworkID{Value: ptr(string(offer.Framework))},
		AgentId:     AgentID(offer.Agent),
		Hostname:    ptr(offer.Hostname),
		Url:         AgentURL(offer.Hostname, ip),
		Domain:      Domain(offer.Region, offer.Zone),
		Resources:   f.WriteResources(offer.Resources, offer.Role, places),
		Attributes:  Attributes(offer.Attributes),
	}
	if f.MultiRole() {
		o.AllocationInfo = &mesosv1.Resource_AllocationInfo{Role: ptr(f.MesosRole(offer.Role))}
	}
	for _, executor := range offer.Executors {
		if executor != api.CommandExecutor {
			o.ExecutorIds = append(o.ExecutorIds, ExecutorID(executor))
		}
	}
	if offer.Unavailable != nil {
		o.Unavailability = unavailability(*offer.Unavailable)
	}
	return o
}

// WriteInverseOffer writes an inverse offer for the framework.
func (f *Framework) WriteInverseOffer(offer api.InverseOffer, ip string) *mesosv1.InverseOffer {
	return &mesosv1.InverseOffer{
		Id:             &mesosv1.OfferID{Value: ptr(string(offer.ID))},
		FrameworkId:    &mesosv1.FrameworkID{Value: ptr(string(offer.Framework))},
		AgentId:        AgentID(offer.Agent),
		Url:            AgentURL(ip, ip),
		Unavailability: unavailability(api.Window{Start: offer.Deadline}),
		Resources:      f.WriteResources(offer.Resources, "", nil),
	}
}

func unavailability(window api.Window) *mesosv1.Unavailability {
	u := &mesosv1.Unavailability{Start: &mesosv1.TimeInfo{Nanoseconds: ptr(window.Start.UnixNano())}}
	if window.Duration > 0 {
		u.Duration = &mesosv1.DurationInfo{Nanoseconds: ptr(int64(window.Duration))}
	}
	return u
}

// Domain says where an agent is; nil if nobody has said.
func Domain(region, zone string) *mesosv1.DomainInfo {
	if region == "" && zone == "" {
		return nil
	}
	return &mesosv1.DomainInfo{FaultDomain: &mesosv1.DomainInfo_FaultDomain{
		Region: &mesosv1.DomainInfo_FaultDomain_RegionInfo{Name: ptr(region)},
		Zone:   &mesosv1.DomainInfo_FaultDomain_ZoneInfo{Name: ptr(zone)},
	}}
}

// number is what Mesos takes for a scalar attribute.
var number = regexp.MustCompile(`^[-+]?[0-9]*\.?[0-9]+$`)

// Attributes writes the attributes of an agent by sorted name: numbers as scalars, as Mesos reads them, all else as text.
func Attributes(attributes map[string]string) []*mesosv1.Attribute {
	var list []*mesosv1.Attribute
	for _, label := range MesosLabels(attributes).GetLabels() {
		a := &mesosv1.Attribute{Name: label.Key}
		value, err := strconv.ParseFloat(label.GetValue(), 64)
		if err == nil && number.MatchString(label.GetValue()) {
			a.Type, a.Scalar = mesosv1.Value_SCALAR.Enum(), &mesosv1.Value_Scalar{Value: ptr(value)}
		} else {
			a.Type, a.Text = mesosv1.Value_TEXT.Enum(), &mesosv1.Value_Text{Value: label.Value}
		}
		list = append(list, a)
	}
	return list
}

// AgentID writes an agent's ID.
func AgentID(id api.AgentID) *mesosv1.AgentID { return &mesosv1.AgentID{Value: ptr(string(id))} }

// TaskID writes a task's ID as its framework knows it.
func TaskID(id api.TaskID) *mesosv1.TaskID {
	return &mesosv1.TaskID{Value: ptr(UnescapeID(string(id)))}
}

// ExecutorID writes an executor's ID as its framework knows it.
func ExecutorID(id api.ExecutorID) *mesosv1.ExecutorID {
	return &mesosv1.ExecutorID{Value: ptr(UnescapeID(string(id)))}
}

// ReadTaskID returns Tender's ID of a task.
func ReadTaskID(id *mesosv1.TaskID) api.TaskID { return api.TaskID(EscapeID(id.GetValue())) }

// ReadExecutorID returns Tender's ID of an executor.
func ReadExecutorID(id *mesosv1.ExecutorID) api.ExecutorID {
	return api.ExecutorID(EscapeID(id.GetValue()))
}

// Refuse returns the filter of a decline, or of what an accept leaves over.
func Refuse(filters *mesosv1.Filters) api.Filter {
	seconds := filters.GetRefuseSeconds() // 5 where there is none
	switch {
	case seconds <= 0: // also what is not a number
		return api.NoFilter
	case seconds > 365*24*3600:
		seconds = 365 * 24 * 3600
	}
	return api.Filter{Refuse: max(time.Duration(seconds*float64(time.Second)), 1)}
}
