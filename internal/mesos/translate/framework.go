package translate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
	schedulerv1 "github.com/tenderhq/tender/internal/mesos/v1/scheduler"
)

// Framework is what a framework of Mesos says of itself.
type Framework struct {
	Info *mesosv1.FrameworkInfo
	// Roles are its roles as Mesos calls them.
	Roles []string
	can   map[mesosv1.FrameworkInfo_Capability_Type]bool
}

// ReadFramework reads what a framework says of itself. The error is in Mesos's words.
func ReadFramework(info *mesosv1.FrameworkInfo) (*Framework, error) {
	f := &Framework{Info: info, Roles: info.GetRoles(), can: make(map[mesosv1.FrameworkInfo_Capability_Type]bool)}
	for _, capability := range info.GetCapabilities() {
		f.can[capability.GetType()] = true
	}
	switch {
	case f.MultiRole() && info.Role != nil:
		return nil, fmt.Errorf("'FrameworkInfo.role' must not be set when the framework is MULTI_ROLE capable")
	case !f.MultiRole() && len(info.GetRoles()) > 0:
		return nil, fmt.Errorf("'FrameworkInfo.roles' must not be set when the framework is not MULTI_ROLE capable")
	case !f.MultiRole():
		f.Roles = []string{info.GetRole()}
	}
	for i, role := range f.Roles {
		if slices.Contains(f.Roles[:i], role) {
			return nil, fmt.Errorf("'FrameworkInfo.roles' contains duplicate items: { %s }", role)
		}
		if err := Role(role).Check(); err != nil {
			return nil, fmt.Errorf("'FrameworkInfo.roles' contains invalid role: %w", err)
		}
	}
	if slices.Contains(f.Roles, DefaultRole) && slices.Contains(f.Roles, string(api.DefaultRole)) {
		return nil, fmt.Errorf("'FrameworkInfo.roles' contains invalid role: %q and %q are one role here", DefaultRole, api.DefaultRole)
	}
	if timeout := info.GetFailoverTimeout(); timeout < 0 || math.IsNaN(timeout) || timeout > math.MaxInt64/1e9 {
		return nil, fmt.Errorf("The framework failover_timeout (%v) is invalid", timeout) //nolint:staticcheck // Mesos's words
	}
	return f, nil
}

// MultiRole says that the framework reads allocation_info, which it must not see otherwise.
func (f *Framework) MultiRole() bool { return f.can[mesosv1.FrameworkInfo_Capability_MULTI_ROLE] }

// Refines says that the framework reads reservations as a stack.
func (f *Framework) Refines() bool {
	return f.can[mesosv1.FrameworkInfo_Capability_RESERVATION_REFINEMENT]
}

// PartitionAware says that the framework knows the precise states of a task whose agent is away.
func (f *Framework) PartitionAware() bool {
	return f.can[mesosv1.FrameworkInfo_Capability_PARTITION_AWARE]
}

// KnowsKilling says that the framework knows TASK_KILLING.
func (f *Framework) KnowsKilling() bool {
	return f.can[mesosv1.FrameworkInfo_Capability_TASK_KILLING_STATE]
}

// FailoverTimeout is how long the framework's tasks outlive its connection. 0: not at all.
func (f *Framework) FailoverTimeout() time.Duration {
	return time.Duration(min(f.Info.GetFailoverTimeout(), api.FailoverTimeoutMax.Seconds()) * float64(time.Second))
}

// TenderRoles returns its roles as Tender calls them.
func (f *Framework) TenderRoles() []api.Role {
	roles := make([]api.Role, len(f.Roles))
	for i, role := range f.Roles {
		roles[i] = Role(role)
	}
	return roles
}

// MesosRole returns the framework's own name for a role.
func (f *Framework) MesosRole(role api.Role) string {
	if role == api.DefaultRole && !slices.Contains(f.Roles, string(role)) {
		return DefaultRole
	}
	return string(role)
}

// SuppressedRoles returns those of the named roles that Tender is to suppress from the start.
func (f *Framework) SuppressedRoles(suppressed []string) (roles []api.Role, err error) {
	for _, role := range suppressed {
		if !slices.Contains(f.Roles, role) {
			return nil, fmt.Errorf("Suppressed roles { %s } are not contained in the set of roles", role) //nolint:staticcheck // Mesos's words
		}
		roles = append(roles, Role(role))
	}
	return roles, nil
}

// MinOffer returns the least offer that the framework wants. Mesos wants any of several in each role; Tender has one
// bound, so it holds where all of a framework's roles name the same single one.
func (f *Framework) MinOffer() (api.Resources, error) {
	var least api.Resources
	for _, filters := range f.Info.GetOfferFilters() {
		quantities := filters.GetMinAllocatableResources().GetQuantities()
		var items []api.Resource
		if len(quantities) == 1 {
			for name, amount := range quantities[0].GetQuantities() {
				items = append(items, api.Resource{Label: api.Label{Name: name}, Scalar: api.MilliOf(min(amount.GetValue(), api.MilliMax.Float()))})
			}
		}
		one := api.NewResources(items...)
		if !least.IsZero() && !one.Equal(least) {
			return api.Resources{}, nil // any of them: nothing is left out
		}
		least = one
	}
	return least, least.Check()
}

// Constraint returns the offer constraints of all roles as one expression over agents; "" if there are none.
func (f *Framework) Constraint(constraints *schedulerv1.OfferConstraints) (string, error) {
	var roles []string
	for role := range constraints.GetRoleConstraints() {
		if !slices.Contains(f.Roles, role) {
			return "", fmt.Errorf("Offer constraints specify `role_constraints` for a role '%s' not contained in the set of roles", role) //nolint:staticcheck // Mesos's words
		}
		roles = append(roles, role)
	}
	slices.Sort(roles)
	var parts []string
	for _, role := range roles {
		var groups []string
		for _, group := range constraints.GetRoleConstraints()[role].GetGroups() {
			expression, err := groupExpression(group)
			if err != nil {
				return "", err
			}
			groups = append(groups, expression)
		}
		if len(groups) > 0 {
			parts = append(parts, fmt.Sprintf("(role != %q || %s)", Role(role), strings.Join(groups, " || ")))
		}
	}
	return strings.Join(parts, " && "), nil
}

func groupExpression(group *schedulerv1.OfferConstraints_RoleConstraints_Group) (string, error) {
	var all []string
	for _, constraint := range group.GetAttributeConstraints() {
		expression, err := predicateExpression(constraint)
		if err != nil {
			return "", err
		}
		all = append(all, expression)
	}
	if len(all) == 0 {
		return "", fmt.Errorf("`OfferConstraints` are not valid: A group with no constraints is not allowed")
	}
	return "(" + strings.Join(all, " && ") + ")", nil
}

// predicateExpression writes one predicate. A number, which Mesos calls a scalar attribute, passes every text predicate.
func predicateExpression(constraint *schedulerv1.AttributeConstraint) (string, error) {
	selector, predicate := constraint.GetSelector(), constraint.GetPredicate()
	var value, exists string
	switch name := selector.GetAttributeName(); {
	case name != "":
		value, exists = fmt.Sprintf("attributes[?%q].orValue(\"\")", name), fmt.Sprintf("(%q in attributes)", name)
	case selector.GetPseudoattributeType() == schedulerv1.AttributeConstraint_Selector_HOSTNAME:
		value, exists = "hostname", `(hostname != "")`
	case selector.GetPseudoattributeType() == schedulerv1.AttributeConstraint_Selector_REGION:
		value, exists = "region", `(region != "")`
	case selector.GetPseudoattributeType() == schedulerv1.AttributeConstraint_Selector_ZONE:
		value, exists = "zone", `(zone != "")`
	default:
		return "", fmt.Errorf("`OfferConstraints` are not valid: Exactly one of 'AttributeConstraint::Selector::name' or 'AttributeConstraint::Selector::pseudoattribute_type' must be set")
	}
	scalar := fmt.Sprintf(`%s.matches("^[-+]?[0-9]*[.]?[0-9]+$")`, value)
	switch {
	case predicate.GetExists() != nil:
		return exists, nil
	case predicate.GetNotExists() != nil:
		return "!" + exists, nil
	case predicate.GetTextEquals() != nil:
		return fmt.Sprintf("(%s == %q || %s)", value, predicate.GetTextEquals().GetValue(), scalar), nil
	case predicate.GetTextNotEquals() != nil:
		return fmt.Sprintf("%s != %q", value, predicate.GetTextNotEquals().GetValue()), nil
	case predicate.GetTextMatches() != nil:
		return fmt.Sprintf("(%s.matches(%q) || %s)", value, "^("+predicate.GetTextMatches().GetRegex()+")$", scalar), nil
	case predicate.GetTextNotMatches() != nil:
		return fmt.Sprintf("!%s.matches(%q)", value, "^("+predicate.GetTextNotMatches().GetRegex()+")$"), nil
	}
	return "", fmt.Errorf("`OfferConstraints` are not valid: Unknown predicate type")
}

// Revocable says that the framework wants revocable resources too.
func (f *Framework) Revocable() bool {
	return f.can[mesosv1.FrameworkInfo_Capability_REVOCABLE_RESOURCES]
}
