package api

import "time"

// Limits that hold everywhere. Each names its unit and what happens beyond it.
const (
	// IDBytesMax: a longer identifier is refused (Invalid).
	IDBytesMax = 255
	// RoleDepthMax: a deeper role is refused (Invalid).
	RoleDepthMax = 16
	// MessageBytesMax: no message between Tender's parts is larger (R4); what can
	// be longer comes in pages. A larger one closes the stream.
	MessageBytesMax = 1 << 20
	// CallsPerMessageMax bounds the calls in one message; more close its stream (Limit).
	CallsPerMessageMax = 4096
	// ItemsPerMessageMax bounds the calls of one message and all that they list, such as
	// tasks, offers and acknowledgements; more close its stream (Limit).
	ItemsPerMessageMax = 65_536
	// ItemsPerCallMax bounds the tasks, statuses or acknowledgements that one call of a
	// scheduler lists; a call that lists more is refused (Invalid).
	ItemsPerCallMax = 4096
	// TaskBytesMax bounds one task with its command, environment and data, so that
	// every task fits a message. A larger one ends ERROR (TASK_INVALID).
	TaskBytesMax = 256 << 10
	// GroupTasksMax bounds the tasks of one group. A larger group ends ERROR (TASK_INVALID).
	GroupTasksMax = 64
	// GroupBytesMax bounds the tasks of one group together, so that every group fits a
	// message. A larger group ends ERROR (TASK_INVALID).
	GroupBytesMax = 512 << 10
	// SecretsPerTaskMax bounds the secrets that a task names. One that names more ends ERROR (TASK_INVALID).
	SecretsPerTaskMax = 32
	// SecretBytesMax bounds the value of one secret; a larger one is refused (Limit).
	SecretBytesMax = 64 << 10
	// TaskSecretsBytesMax bounds the values of a task's secrets together. One that names more ends
	// ERROR or FAILED (SECRET_UNAVAILABLE).
	TaskSecretsBytesMax = 256 << 10
	// StatusDataBytesMax bounds what an executor may attach to a status. More is
	// refused at the executor.
	StatusDataBytesMax = 64 << 10
	// StatusMessageBytesMax: a longer message of a status is cut off.
	StatusMessageBytesMax = 4 << 10
	// RolesPerFrameworkMax: a framework that names more is refused (Invalid).
	RolesPerFrameworkMax = 64
	// OffersPerAnswerMax: an answer that names more is refused (Invalid).
	OffersPerAnswerMax = 1024
	// OperationsPerAnswerMax: an answer with more is refused (Invalid).
	OperationsPerAnswerMax = 1024
	// OperationsPerQuestionMax: asking for the results of more at once is refused (Invalid).
	OperationsPerQuestionMax = 1000
	// SpreadsMax bounds the kinds of places that one shape of a demand names.
	SpreadsMax = 3
	// ResourceNamesMax bounds the kinds of resources of one agent.
	ResourceNamesMax = 64
	// ResourceLabelsMax bounds the items of one bundle: kinds times their labels.
	ResourceLabelsMax = 1024
	// RangesMax bounds the ranges of one resource.
	RangesMax = 4096
	// PidsMax bounds the processes and threads that a task may ask for: a kernel has no more.
	PidsMax = 1 << 22
	// LabelsMax bounds labels and attributes of one noun.
	LabelsMax = 128
	// LabelsBytesMax bounds the names and values of the labels, attributes or endpoints of one noun in the registry;
	// more is refused (Limit).
	LabelsBytesMax = 64 << 10
	// ResourcesBytesMax bounds a bundle of resources in the registry; a larger one is refused (Limit).
	ResourcesBytesMax = 256 << 10
	// OfferBoundBytesMax bounds each of a framework's MinOffer and MaxOffer; a larger one is refused (Limit).
	OfferBoundBytesMax = 16 << 10
	// ConstraintBytesMax: a longer constraint is refused (Invalid).
	ConstraintBytesMax = 4096
	// TextBytesMax bounds a text that masters keep; a longer one is refused (Limit).
	TextBytesMax = 1 << 10
	// FailoverTimeoutMax bounds the failover timeout, because the framework stays in the registry for that long; a
	// longer one is refused (Limit).
	FailoverTimeoutMax = 90 * 24 * time.Hour
	// DemandsPerRoleMax: a demand of more shapes is refused (Limit).
	DemandsPerRoleMax = 256
	// ConstraintBytesPerDemandMax bounds the constraints of a demand together; one with more
	// is refused (Limit).
	ConstraintBytesPerDemandMax = 64 << 10
	// StoreLanesMax bounds the writes to its store that one instance of a scheduler has under way at a time; further
	// writes wait in the SDK.
	StoreLanesMax = 256
	// PageItemsMax bounds a page of a list; a request for more gets this many.
	PageItemsMax = 1000
	// DurationMax bounds every duration of a request, so that no deadline overflows.
	// A longer one is refused (Invalid).
	DurationMax = 100 * 365 * 24 * time.Hour
)
