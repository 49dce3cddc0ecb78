package protocol

// DefaultPath is the PATH of executors and tasks, and where an agent looks for programs, unless the agent or the task
// says otherwise.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Environment variables that an agent sets for what it starts (R33). Nothing of the agent's own environment is passed
// on. docs lists these names for users.
const (
	// ExecutorSocketEnv is the path of the agent's unix socket for executors (R32).
	ExecutorSocketEnv = "TENDER_EXECUTOR_SOCKET"
	// ExecutorFrameworkIDEnv is the framework that the executor works for.
	ExecutorFrameworkIDEnv = "TENDER_EXECUTOR_FRAMEWORK_ID"
	// ExecutorIDEnv is the executor's ID within its framework.
	ExecutorIDEnv = "TENDER_EXECUTOR_ID"
	// ExecutorTokenFDEnv is the number of the inherited descriptor from which the
	// executor reads its token, to the end, once, before it does anything else. It
	// then closes it; tasks never inherit it.
	ExecutorTokenFDEnv = "TENDER_EXECUTOR_TOKEN_FD"
	// ExecutorSandboxEnv is the executor's own folder, which is also its working folder at its start.
	ExecutorSandboxEnv = "TENDER_EXECUTOR_SANDBOX"
	// ExecutorRecoveryTimeoutEnv says how long the executor waits for an agent that
	// went away, as time.Duration writes it ("15m0s"). "0s" = not at all.
	ExecutorRecoveryTimeoutEnv = "TENDER_EXECUTOR_RECOVERY_TIMEOUT"
	// ExecutorCellEnv tells the built-in executor in which control group it may make one for each task, and with which
	// limits. Empty: the machine has none.
	ExecutorCellEnv = "TENDER_EXECUTOR_CELL"

	// TaskIDEnv and the names below are set for each task by whoever starts its process. They replace variables of the
	// same name that the task asks for.
	TaskIDEnv          = "TENDER_TASK_ID"
	TaskFrameworkIDEnv = "TENDER_TASK_FRAMEWORK_ID"
	TaskSandboxEnv     = "TENDER_TASK_SANDBOX"
	// TaskSharedEnv is the folder that the tasks of a group share. Other tasks do not have it.
	TaskSharedEnv = "TENDER_TASK_SHARED"
	// TaskGPUsEnv holds the indices of the agent's GPUs that belong to the task, separated by commas. CUDAEnv and
	// NvidiaEnv tell programs the same in the names of the drivers. Only tasks that have GPUs have these.
	TaskGPUsEnv     = "TENDER_TASK_GPUS"
	CUDAEnv         = "CUDA_VISIBLE_DEVICES"
	NvidiaEnv       = "NVIDIA_VISIBLE_DEVICES"
	TaskAgentIDEnv  = "TENDER_TASK_AGENT_ID"
	TaskHostnameEnv = "TENDER_TASK_HOSTNAME"
)
