// Package allocator measures allocators on the shapes with which Mesos measured its own
// (hierarchical_allocator_tests.cpp and hierarchical_allocator_benchmarks.cpp), prints
// the figures beside those known for Mesos, and draws how they grow. It holds no
// figures of ours: those are made anew each time.
package allocator
