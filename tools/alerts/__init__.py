"""Alerts that reach people and agents unasked: their life, the follower that finds them, news, notices."""

from trainwright.tools.alerts.life import Life, is_settled, life_of, mark_seen, news_of
from trainwright.tools.alerts.looking import look
from trainwright.tools.alerts.news import history, take_news
