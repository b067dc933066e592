package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func scenarios() map[string]scenario {
	return map[string]scenario{
		"sync_send":       syncSend,
		"async_send":      asyncSend,
		"oneway":          oneway,
		"batch":           batch,
		"selected_queue":  selectedQueue,
		"compressed":      compressed,
		"non_ascii":       nonASCII,
		"auto_create":     autoCreate,
		"admin":           adminCalls,
		"clustering":      clustering,
		"broadcasting":    broadcasting,
		"orderly":         orderly,
		"tag_filter":      tagFilter,
		"offsets_survive": offsetsSurvive,
		"retry":           retry,
		"delay_level":     delayLevel,
		"pull_from":       pullFrom,

		"transaction":       transaction,
		"transaction_check": transactionCheck,
		"request_reply":     requestReply,
		"trace":             trace,
		"timer":             timer,
	}
}

func (h *harness) producer(group string, options ...producer.Option) (rocketmq.Producer, error) {
	options = append([]producer.Option{
		producer.WithGroupName(group + "-producer"),
		producer.WithInstanceName(fmt.Sprintf("%s-%d", group, time.Now().UnixNano())),
		producer.WithNameServer([]string{h.namesrv}),
		producer.WithSendMsgTimeout(30 * time.Second),
	}, options...)
	made, err := rocketmq.NewProducer(options...)
	if err != nil {
		return nil, err
	}
	return made, made.Start()
}

// stored reads every message of the topic's queues with a pull consumer, in queue order.
func (h *harness) stored(topic string, count int) ([]*primitive.MessageExt, error) {
	puller, err := rocketmq.NewPullConsumer(
		consumer.WithGroupName(topic+"-reader"),
		consumer.WithInstance(fmt.Sprintf("%s-reader-%d", topic, time.Now().UnixNano())),
		consumer.WithNameServer([]string{h.namesrv}),
	)
	if err != nil {
		return nil, err
	}
	// It needs a subscription to start.
	if err := puller.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}); err != nil {
		return nil, err
	}
	if err := puller.Start(); err != nil {
		return nil, err
	}
	defer puller.Shutdown()
	queues, err := h.queues(topic)
	if err != nil {
		return nil, err
	}
	// A pull of an empty queue waits at the broker for 20 s: read the queues concurrently and leave those pulls.
	arrivals := make(chan *primitive.MessageExt)
	enough := make(chan struct{})
	defer close(enough)
	for _, queue := range queues {
		go readQueue(puller, queue, arrivals, enough)
	}
	var found []*primitive.MessageExt
	deadline := time.After(waitLimit)
	for len(found) < count {
		select {
		case message := <-arrivals:
			found = append(found, message)
		case <-deadline:
			return nil, fmt.Errorf("%d messages of %s stored, %d sent", len(found), topic, count)
		}
	}
	sort.Slice(found, func(i, k int) bool {
		if found[i].Queue.QueueId != found[k].Queue.QueueId {
			return found[i].Queue.QueueId < found[k].Queue.QueueId
		}
		return found[i].QueueOffset < found[k].QueueOffset
	})
	return found, nil
}

// readQueue passes on every message of a queue from its start, until enough is closed.
func readQueue(puller rocketmq.PullConsumer, queue *primitive.MessageQueue, arrivals chan<- *primitive.MessageExt,
	enough <-chan struct{}) {
	offset := int64(0)
	for {
		result, err := puller.PullFrom(context.Background(), queue, offset, 32)
		if err == nil && result.Status == primitive.PullFound {
			for _, message := range result.GetMessageExts() {
				select {
				case arrivals <- message:
				case <-enough:
					return
				}
			}
			offset = result.NextBeginOffset
		}
		select {
		case <-enough:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (h *harness) queues(topic string) ([]*primitive.MessageQueue, error) {
	asker, err := admin.NewAdmin(admin.WithResolver(primitive.NewPassthroughResolver([]string{h.namesrv})))
	if err != nil {
		return nil, err
	}
	defer asker.Close()
	var queues []*primitive.MessageQueue
	err = await("the queues of "+topic, func() bool {
		queues, err = asker.FetchPublishMessageQueues(context.Background(), topic)
		return err == nil
	})
	sort.Slice(queues, func(i, k int) bool { return queues[i].QueueId < queues[k].QueueId })
	return queues, err
}

func syncSend(h *harness, topic string) (string, error) {
	p, err := h.producer(topic)
	if err != nil {
		return "", err
	}
	defer p.Shutdown()
	next := map[int]int64{}
	for i := 0; i < 8; i++ {
		message := primitive.NewMessage(topic, []byte(fmt.Sprintf("body %d", i))).WithTag("TagA")
		message.WithKeys([]string{fmt.Sprintf("key%d", i)}).WithProperty("index", fmt.Sprint(i))
		result, err := p.SendSync(context.Background(), message)
		if err != nil {
			return "", err
		}
		if result.Status != primitive.SendOK || len(result.OffsetMsgID) != 32 {
			return "", fmt.Errorf("result %+v", result)
		}
		if result.QueueOffset != next[result.MessageQueue.QueueId] {
			return "", fmt.Errorf("offset %d, expected %d", result.QueueOffset, next[result.MessageQueue.QueueId])
		}
		next[result.MessageQueue.QueueId]++
	}
	found, err := h.stored(topic, 8)
	if err != nil {
		return "", err
	}
	for _, message := range found {
		index := message.GetProperty("index")
		if string(message.Body) != "body "+index || message.GetKeys() != "key"+index || message.GetTags() != "TagA" {
			return "", fmt.Errorf("stored %v", message)
		}
	}
	return fmt.Sprintf("8 in %d queues", len(next)), nil
}

func asyncSend(h *harness, topic string) (string, error) {
	p, err := h.producer(topic)
	if err != nil {
		return "", err
	}
	defer p.Shutdown()
	var lock sync.Mutex
	positions := map[string]bool{}
	var failures []string
	for i := 0; i < 100; i++ {
		err := p.SendAsync(context.Background(), func(_ context.Context, result *primitive.SendResult, sendErr error) {
			lock.Lock()
			defer lock.Unlock()
			if sendErr != nil {
				failures = append(failures, sendErr.Error())
				return
			}
			positions[fmt.Sprintf("%d:%d", result.MessageQueue.QueueId, result.QueueOffset)] = true
		}, primitive.NewMessage(topic, []byte(fmt.Sprintf("async %d", i))))
		if err != nil {
			return "", err
		}
	}
	err = await("100 answers", func() bool {
		lock.Lock()
		defer lock.Unlock()
		return len(positions)+len(failures) == 100
	})
	if err == nil && len(failures) > 0 {
		err = fmt.Errorf("failures %v", failures)
	}
	return "100 positions", err
}

func oneway(h *harness, topic string) (string, error) {
	p, err := h.producer(topic)
	if err != nil {
		return "", err
	}
	defer p.Shutdown()
	for i := 0; i < 10; i++ {
		if err := p.SendOneWay(context.Background(), primitive.NewMessage(topic, []byte("oneway"))); err != nil {
			return "", err
		}
	}
	_, err = h.stored(topic, 10)
	return "10 stored", err
}

func batch(h *harness, topic string) (string, error) {
	p, err := h.producer(topic)
	if err != nil {
		return "", err
	}
	defer p.Shutdown()
	var messages []*primitive.Message
	for i := 0; i < 20; i++ {
		message := primitive.NewMessage(topic, []byte(fmt.Sprintf("batch %02d", i))).WithTag("TagB")
		message.WithProperty("index", fmt.Sprintf("%02d", i))
		messages = append(messages, message)
	}
	result, err := p.SendSync(context.Background(), messages...)
	if err != nil {
		return "", err
	}
	if ids := strings.Split(result.OffsetMsgID, ","); len(ids) != 20 {
		return "", fmt.Errorf("%d offset ids for 20 messages", len(ids))
	}
	found, err := h.stored(topic, 20)
	if err != nil {
		return "", err
	}
	for i, message := range found {
		index := fmt.Sprintf("%02d", i)
		if string(message.Body) != "batch "+index || message.GetProperty("index") != index {
			return "", fmt.Errorf("message %d is %v", i, message)
		}
	}
	return "20 in order", nil
}

func selectedQueue(h *harness, topic string) (string, error) {
	p, err := h.producer(topic, producer.WithQueueSelector(producer.NewManualQueueSelector()))
	if err != nil {
		return "", err
	}
	defer p.Shutdown()
	queues, err := h.queues(topic)
	if err != nil {
		return "", err
	}
	for i := 0; i < 12; i++ {
		message := primitive.NewMessage(topic, []byte(fmt.Sprint(i)))
		message.Queue = queues[i%3]
		result, err := p.SendSync(context.Background(), message)
		if err != nil {
			return "", err
		}
		if result.MessageQueue.QueueId != queues[i%3].QueueId || result.QueueOffset != int64(i/3) {
			return "", fmt.Errorf("message %d went to %v at %d", i, result.MessageQueue, result.QueueOffset)
		}
	}
	return "12 to 3 queues", nil
}

func compressed(h *harness, topic string) (string, error) {
	p, err := h.producer(topic)
	if err != nil {
		return "", err
	}
	defer p.Shutdown()
	var words bytes.Buffer
	random := rand.New(rand.NewSource(7))
	for words.Len() < 100_000 {
		fmt.Fprintf(&words, "word%d ", random.Intn(1000))
	}
	if _, err := p.SendSync(context.Background(), primitive.NewMessage(topic, words.Bytes())); err != nil {
		return "", err
	}
	found, err := h.stored(topic, 1)
	if err != nil {
		return "", err
	}
	if !bytes.Equal(found[0].Body, words.Bytes()) {
		return "", fmt.Errorf("the body came back changed: %d bytes", len(found[0].Body))
	}
	if int(found[0].StoreSize) > words.Len()/2 {
		return "", fmt.Errorf("stored uncompressed: %d bytes", found[0].StoreSize)
	}
	return fmt.Sprintf("stored in %d bytes", found[0].StoreSize), nil
}

func nonASCII(h *harness, topic string) (string, error) {
	p, err := h.producer(topic)
	if err != nil {
		return "", err
	}
	defer p.Shutdown()
	message := primitive.NewMessage(topic, []byte("消息 🚀")).WithTag("标签").WithKeys([]string{"ключ-ü"})
	message.WithProperty("名前", "値 🎈")
	if _, err := p.SendSync(context.Background(), message); err != nil {
		return "", err
	}
	found, err := h.stored(topic, 1)
	if err != nil {
		return "", err
	}
	got := found[0]
	if string(got.Body) != "消息 🚀" || got.GetTags() != "标签" || strings.TrimSpace(got.GetKeys()) != "ключ-ü" ||
		got.GetProperty("名前") != "値 🎈" {
		return "", fmt.Errorf("stored %v", got)
	}
	return "kept", nil
}

func autoCreate(h *harness, topic string) (string, error) {
	p, err := h.producer(topic)
	if err != nil {
		return "", err
	}
	defer p.Shutdown()
	fresh := topic + "-fresh"
	if _, err := p.SendSync(context.Background(), primitive.NewMessage(fresh, []byte("auto"))); err != nil {
		return "", err
	}
	queues, err := h.queues(fresh)
	if err == nil && len(queues) != 4 {
		err = fmt.Errorf("%d queues of %s", len(queues), fresh)
	}
	return "4 queues", err
}

func adminCalls(h *harness, topic string) (string, error) {
	asker, err := admin.NewAdmin(admin.WithResolver(primitive.NewPassthroughResolver([]string{h.namesrv})))
	if err != nil {
		return "", err
	}
	defer asker.Close()
	listed := func() bool {
		topics, listErr := asker.FetchAllTopicList(context.Background())
		return listErr == nil && strings.Contains(strings.Join(topics.TopicList, " "), topic)
	}
	if err := await("the topic in the list", listed); err != nil {
		return "", err
	}
	if err := asker.DeleteTopic(context.Background(), admin.WithTopicDelete(topic)); err != nil {
		return "", err
	}
	return "listed, deleted", await("the topic to leave the list", func() bool { return !listed() })
}
