package translate

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
)

var errExecutorImage = unsupported("an image for an executor of one's own")

// CheckContainer reports what the container of a task asks for that has no equivalent; nil: all of it works.
func CheckContainer(container *mesosv1.ContainerInfo) error {
	if err := checkContainer(container); err != nil {
		return err
	}
	task := &api.Task{Image: containerImage(container)}
	_, err := Launch{Group: []string{""}}.mounts(task, container.GetVolumes()) // of a group or not, nobody can tell here
	return err
}

// CheckExecutorContainer does the same for the container of an executor of a framework's own.
func CheckExecutorContainer(container *mesosv1.ContainerInfo) error {
	switch {
	case containerImage(container) != "":
		return errExecutorImage
	case len(container.GetVolumes()) > 0:
		return unsupported("a volume for an executor")
	case len(container.GetRlimitInfo().GetRlimits()) > 0:
		return unsupported("'ContainerInfo.rlimit_info' of an executor")
	}
	return checkContainer(container)
}

// checkDefaultExecutor checks what a group's default executor says of itself. It is not there by itself, so that it has
// nothing of its own.
func (l Launch) checkDefaultExecutor() error {
	container := l.Executor.GetContainer()
	switch {
	case l.Executor == nil:
		return nil
	case l.Executor.GetCommand() != nil:
		return errors.New("'ExecutorInfo.command' must not be set for 'DEFAULT' executor")
	case container != nil && container.GetType() != mesosv1.ContainerInfo_MESOS:
		return errors.New("'ExecutorInfo.container.type' must be 'MESOS' for 'DEFAULT' executor")
	case container.GetMesos().GetImage() != nil:
		return errors.New("'ExecutorInfo.container.mesos.image' must not be set for 'DEFAULT' executor")
	}
	for _, r := range l.Executor.GetResources() {
		if r.GetDisk().GetPersistence() != nil {
			return unsupported("a persistent volume of the default executor")
		}
	}
	return CheckExecutorContainer(container)
}

// checkContainer reports what a container asks for that has no equivalent, but for its volumes.
func checkContainer(container *mesosv1.ContainerInfo) error {
	docker, image := container.GetDocker(), container.GetMesos().GetImage()
	host := docker.GetNetwork() == mesosv1.ContainerInfo_DockerInfo_HOST
	switch {
	case container.GetHostname() != "" && docker != nil && host:
		return errors.New("Unable to set hostname with host network mode") //nolint:staticcheck // Mesos's words
	case container.GetHostname() != "":
		return unsupported("'ContainerInfo.hostname'")
	case len(container.GetRlimitInfo().GetRlimits()) > 0 && containerImage(container) != "":
		return unsupported("'ContainerInfo.rlimit_info' for a task in an image")
	case asksOfLinux(container.GetLinuxInfo()):
		return unsupported("'ContainerInfo.linux_info'")
	case image != nil && image.GetType() != mesosv1.Image_DOCKER:
		return unsupported("an image that is not of type DOCKER")
	case len(docker.GetPortMappings()) > 0 && host:
		return errors.New("Port mappings are only supported for bridge and user-defined networks") //nolint:staticcheck // as above
	case !host:
		return unsupported("a network of the container's own")
	case docker.GetPrivileged():
		return unsupported("a privileged container")
	}
	for _, parameter := range docker.GetParameters() {
		switch parameter.GetKey() {
		case "name":
			return errors.New("Parameter in DockerInfo must not be 'name'") //nolint:staticcheck // as above
		case "volume-driver": // volumes that have one are refused, and of no others it says anything
		default:
			return unsupported(fmt.Sprintf("the parameter '%s' of DockerInfo", parameter.GetKey()))
		}
	}
	if container.GetType() == mesosv1.ContainerInfo_DOCKER { // on the host's network it is in no other one, whatever is said
		return nil
	}
	for _, network := range container.GetNetworkInfos() {
		if network.GetName() != "" { // the machine's has none, and maps no port whatever is said
			return unsupported("a network of the container's own")
		}
	}
	return nil
}

// asksOfLinux says whether anything is asked for but control groups of the task's own, or shared ones: tasks of a group
// have control groups of their own here.
func asksOfLinux(info *mesosv1.LinuxInfo) bool {
	rest := proto.CloneOf(info)
	if rest != nil {
		rest.ShareCgroups = nil
	}
	return proto.Size(rest) > 0
}

// limit is the command by which a task sets the limits of its container for itself, and for what it starts.
func limit(info *mesosv1.RLimitInfo) (string, error) {
	if len(info.GetRlimits()) == 0 {
		return "", nil
	}
	command := "prlimit --pid $$"
	for _, one := range info.GetRlimits() {
		value := "unlimited"
		switch {
		case one.GetType() == mesosv1.RLimitInfo_RLimit_UNKNOWN:
			return "", errors.New("Unknown rlimit type") //nolint:staticcheck // Mesos's words
		case (one.Soft == nil) != (one.Hard == nil):
			return "", errors.New("Invalid rlimit values") //nolint:staticcheck // as above
		case one.Soft != nil:
			value = fmt.Sprintf("%d:%d", one.GetSoft(), one.GetHard())
		}
		command += fmt.Sprintf(" --%s=%s", strings.ToLower(strings.TrimPrefix(one.GetType().String(), "RLMT_")), value)
	}
	return command + " || exit 1; ", nil
}

// volumeLinks are commands by which a task finds its persistent volumes under the paths that its framework has named.
func volumeLinks(resources []*mesosv1.Resource) string {
	var b strings.Builder
	for _, r := range resources {
		id, at := r.GetDisk().GetPersistence().GetId(), r.GetDisk().GetVolume().GetContainerPath()
		if id == "" || at == "" || path.IsAbs(at) {
			continue
		}
		b.WriteString(link(`"$PWD"/volumes/`+quote(string(VolumeID(id))), at))
	}
	return b.String()
}

// link is a command that makes target be found at a path of the sandbox.
func link(target, at string) string {
	return fmt.Sprintf("mkdir -p %s && ln -sfn %s %s || exit 1; ", quote(path.Dir(path.Clean(at))), target, quote(path.Clean(at)))
}

// mounts are commands by which a task finds the volumes of its container. They are links: nothing is mounted, so that a
// volume is where a link can be, and can be written to by who may. Its secrets are the task's.
func (l Launch) mounts(task *api.Task, volumes []*mesosv1.Volume) (string, error) {
	var commands strings.Builder
	for _, volume := range volumes {
		if err := checkVolume(volume); err != nil {
			return "", fmt.Errorf("Invalid volume: %w", err) //nolint:staticcheck // Mesos's words
		}
		command, err := l.mount(task, volume)
		if err != nil {
			return "", err
		}
		commands.WriteString(command)
	}
	return commands.String(), nil
}

// checkVolume checks what Mesos checks of every volume.
func checkVolume(volume *mesosv1.Volume) error {
	set := 0
	for _, is := range []bool{volume.HostPath != nil, volume.GetImage() != nil, volume.GetSource() != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		return errors.New("Only one of them should be set: 'host_path', 'image' and 'source'") //nolint:staticcheck // as above
	}
	source := volume.GetSource()
	if source == nil {
		return nil
	}
	is := true
	switch source.GetType() {
	case mesosv1.Volume_Source_UNKNOWN:
		return errors.New("'source.type' is unknown")
	case mesosv1.Volume_Source_DOCKER_VOLUME:
		is = source.GetDockerVolume() != nil
	case mesosv1.Volume_Source_HOST_PATH:
		is = source.GetHostPath() != nil
	case mesosv1.Volume_Source_SANDBOX_PATH:
		is = source.GetSandboxPath() != nil
	case mesosv1.Volume_Source_SECRET:
		is = source.GetSecret() != nil
	case mesosv1.Volume_Source_CSI_VOLUME: // refused anyway
	}
	if !is {
		return fmt.Errorf("'source.%s' is not set for %s volume", strings.ToLower(source.GetType().String()), source.GetType())
	}
	return nil
}

// mount is the command for one volume.
func (l Launch) mount(task *api.Task, volume *mesosv1.Volume) (string, error) {
	source, at := volume.GetSource(), volume.GetContainerPath()
	host := source.GetHostPath().GetPath()
	if volume.HostPath != nil {
		host = volume.GetHostPath()
	}
	switch {
	case volume.GetImage() != nil:
		return "", unsupported("a volume that is an image")
	case source.GetType() == mesosv1.Volume_Source_SECRET:
		return mountSecret(task, source.GetSecret(), at)
	case source.GetType() == mesosv1.Volume_Source_SANDBOX_PATH:
		return l.mountSandbox(source.GetSandboxPath(), at)
	case source != nil && source.GetType() != mesosv1.Volume_Source_HOST_PATH:
		return "", unsupported(fmt.Sprintf("a volume of type %s", source.GetType()))
	case !path.IsAbs(host) && source != nil:
		return "", fmt.Errorf("Path '%s' in HOST_PATH volume is not absolute", host) //nolint:staticcheck // Mesos's words
	case !path.IsAbs(host): // a folder of the sandbox, as the older format says it
		return "", unsupported("a folder of the sandbox at another path")
	case task.Image != "":
		return "", unsupported("a volume of the host for a task in an image")
	case volume.GetMode() != mesosv1.Volume_RW:
		return "", unsupported("a volume of the host that is read only")
	case source.GetHostPath().GetMountPropagation().GetMode() == mesosv1.MountPropagation_BIDIRECTIONAL:
		return "", unsupported("a volume of the host whose mounts are the host's")
	}
	there := fmt.Sprintf(`test -e %s || { echo "Path "%s" in HOST_PATH volume does not exist" >&2; exit 1; }; `, quote(host), quote("'"+host+"'"))
	switch {
	case path.Clean(at) == path.Clean(host): // the task sees the host's files
		return there, nil
	case path.IsAbs(at):
		return "", unsupported("a volume of the host at another absolute path")
	}
	return there + link(quote(host), at), inSandbox(at)
}

// mountSandbox is the command for a folder of the sandbox, or of the one that is its group's.
func (l Launch) mountSandbox(from *mesosv1.Volume_Source_SandboxPath, at string) (string, error) {
	switch {
	case path.IsAbs(from.GetPath()):
		return "", fmt.Errorf("Path '%s' in SANDBOX_PATH volume is absolute", from.GetPath()) //nolint:staticcheck // Mesos's words
	case from.GetType() == mesosv1.Volume_Source_SandboxPath_SELF && !path.IsAbs(at):
		return "", errors.New("'container_path' is relative for SANDBOX_PATH volume SELF type")
	case from.GetType() == mesosv1.Volume_Source_SandboxPath_PARENT && len(l.Group) == 0:
		return "", errors.New("SANDBOX_PATH volume PARENT type only works for nested container")
	case from.GetType() == mesosv1.Volume_Source_SandboxPath_UNKNOWN:
		return "", errors.New("Unknown SANDBOX_PATH volume type") //nolint:staticcheck // as above
	case path.IsAbs(at):
		return "", unsupported("a SANDBOX_PATH volume with an absolute container path")
	}
	if err := errors.Join(inSandbox(at), inSandbox(from.GetPath())); err != nil {
		return "", err
	}
	target := `"$TENDER_TASK_SHARED"/` + quote(path.Clean(from.GetPath()))
	return fmt.Sprintf("mkdir -p %s || exit 1; ", target) + link(target, at), nil
}

// mountSecret is the command for a secret that the cluster keeps.
func mountSecret(task *api.Task, secret *mesosv1.Secret, at string) (string, error) {
	id, err := secretOf(secret)
	if err != nil {
		return "", err
	}
	if path.IsAbs(at) {
		return "", unsupported("a SECRET volume with an absolute container path")
	}
	file := fmt.Sprintf("volume-%d", len(task.Secrets)+1)
	task.Secrets = append(task.Secrets, api.Secret{ID: id, File: file})
	return link(`"$PWD"/secrets/`+file, at), inSandbox(at)
}

// inSandbox refuses a path that leads out of the sandbox.
func inSandbox(at string) error {
	if clean := path.Clean(at); at == "" || clean == "." || clean == ".." || strings.HasPrefix(clean, "../") {
		return fmt.Errorf("path '%s' leads out of the sandbox, or to all of it", at)
	}
	return nil
}

// secretOf returns which secret of the cluster one of Mesos refers to.
func secretOf(secret *mesosv1.Secret) (api.SecretID, error) {
	reference := secret.GetReference()
	switch {
	case secret.GetType() == mesosv1.Secret_VALUE:
		return "", unsupported("a secret of type VALUE, which everybody would read who sees the task,")
	case reference == nil:
		return "", errors.New("Secret of type REFERENCE must have the 'reference' field set") //nolint:staticcheck // Mesos's words
	case reference.Key != nil:
		return "", unsupported("a key of a secret")
	}
	id := api.SecretID(reference.GetName())
	return id, id.Check()
}

// containerImage returns the image that a container names, in full, as Tender wants it; "" if it names none.
func containerImage(container *mesosv1.ContainerInfo) string {
	name := container.GetMesos().GetImage().GetDocker().GetName()
	if container.GetType() == mesosv1.ContainerInfo_DOCKER {
		name = container.GetDocker().GetImage()
	}
	if name == "" {
		return ""
	}
	first, _, slashed := strings.Cut(name, "/")
	switch {
	case !slashed:
		name = "docker.io/library/" + name
	case !strings.ContainsAny(first, ".:") && first != "localhost":
		name = "docker.io/" + name
	}
	if last := path.Base(name); !strings.ContainsAny(last, ":@") {
		name += ":latest"
	}
	return name
}
