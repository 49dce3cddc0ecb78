// Public clients of Apache Mesos, and the test that runs them: in a module of its own, so that nothing of them is in the
// module of Tender, nor in its dependencies.
module github.com/tenderhq/tender/tools/mesosgo

go 1.26.0

require github.com/mesos/mesos-go v0.0.11

require (
	github.com/beorn7/perks v0.0.0-20180321164747-3a771d992973 // indirect
	github.com/gogo/protobuf v1.1.1 // indirect
	github.com/golang/protobuf v1.2.0 // indirect
	github.com/google/uuid v1.0.0 // indirect
	github.com/matttproud/golang_protobuf_extensions v1.0.1 // indirect
	github.com/pborman/uuid v1.2.1 // indirect
	github.com/pquerna/ffjson v0.0.0-20190930134022-aa0246cd15f7 // indirect
	github.com/prometheus/client_golang v0.9.1 // indirect
	github.com/prometheus/client_model v0.0.0-20180712105110-5c3871d89910 // indirect
	github.com/prometheus/common v0.2.0 // indirect
	github.com/prometheus/procfs v0.0.0-20181005140218-185b4288413d // indirect
)
