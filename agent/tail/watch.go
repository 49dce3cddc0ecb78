package tail

import "time"

// watcher says that something in a folder may have changed. One signal stands for many.
type watcher struct {
	seen  chan struct{}
	close func()
}

func (w *watcher) signal() {
	select {
	case w.seen <- struct{}{}:
	default:
	}
}

// poll is for systems that can't tell, or have told too many others.
func poll() *watcher {
	const interval = 200 * time.Millisecond
	stop := make(chan struct{})
	w := &watcher{seen: make(chan struct{}, 1), close: func() { close(stop) }}
	go func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				w.signal()
			case <-stop:
				return
			}
		}
	}()
	return w
}
